"""Network interfaces in requests: what reaches the reader, and when it is called at all."""

from dataclasses import dataclass, field

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.host_facts import NoHostFacts
from nri_numamem.numa import NodeSet

REQUEST = NetworkRequest((NetworkInterface("eth1", NodeSet([2])),))
PATH = "/run/netns/cni-1"


@dataclass
class Reader(NoHostFacts):
    reads_networks: bool = True
    names: list[tuple[str, ...]] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def sandbox_started(self, pod: events.PodSandbox, path: str) -> None:
        assert pod.cgroup_parent == "/kubepods/poduid"
        self.calls.append(("started", path))

    def sandbox_ended(self, sandbox_id: str) -> None:
        self.calls.append(("ended", sandbox_id))

    def network(
        self, pod: events.PodSandbox, host_names: tuple[str, ...], path: str
    ) -> NetworkRequest:
        assert pod.uid == "uid"
        self.names.append(host_names)
        self.calls.append(("read", path))
        return REQUEST


def sandbox(*namespaces: tuple[str, str]) -> api.PodSandbox:
    pod = api.PodSandbox(id="s", uid="uid")
    pod.linux.cgroup_parent = "/kubepods/poduid"
    for kind, path in namespaces:
        pod.linux.namespaces.add(type=kind, path=path)
    return pod


def created(reader: Reader, *names: str) -> events.CreateContainer:
    pod = sandbox(("network", PATH))
    request = api.CreateContainerRequest(pod=pod, container=api.Container(id="c", name="main"))
    for name in names:
        request.container.linux.net_devices[name].name = "eth0"
    return Decoder(reader).create_container(request)


def test_the_reader_gets_the_names_on_the_host_in_order() -> None:
    reader = Reader()
    assert created(reader, "eth2", "eth1").network == REQUEST
    assert created(reader).network == REQUEST
    assert reader.names == [("eth1", "eth2"), ()]


def test_names_that_no_interface_has_are_left_out() -> None:
    reader = Reader()
    created(reader, "", "a" * 16, "a" * 15, "x\ny")
    created(reader, *(f"eth{number}" for number in range(100)))
    assert reader.names[0] == ("a" * 15,)
    assert len(reader.names[1]) == 32


def test_a_reader_that_is_switched_off_is_not_called() -> None:
    reader = Reader(reads_networks=False)
    assert created(reader, "eth1").network is None
    decoder = Decoder(reader)
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=sandbox(("network", PATH))))
    decoder.stop_pod_sandbox(api.StopPodSandboxRequest(pod=sandbox()))
    assert reader.calls == []


def test_a_sandbox_is_reported_once_and_its_end_too() -> None:
    reader = Reader()
    decoder = Decoder(reader)
    pod = sandbox(("network", PATH))
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod))
    decoder.create_container(api.CreateContainerRequest(pod=pod))
    decoder.stop_pod_sandbox(api.StopPodSandboxRequest(pod=pod))
    assert reader.calls == [("started", PATH), ("read", PATH), ("ended", "s")]


def test_the_pods_of_a_synchronize_are_reported_anew() -> None:
    reader = Reader()
    decoder = Decoder(reader)
    for _ in range(2):
        decoder.forget_sandboxes()
        decoder.sandbox(sandbox(("network", PATH)))
    assert reader.calls == [("started", PATH)] * 2
