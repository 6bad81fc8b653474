from collections.abc import Iterable, Mapping

import pytest

from nri_numamem.engine import events
from nri_numamem.memorymanager import NodeSet, Pool, PoolUse
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.decode import _DEVICES_LIMIT, _SANDBOXES_KEPT, Decoder, Device

MI = 1 << 20


class PodCgroups:
    """Counts the looks at a pod's cgroup."""

    def __init__(self, limits: Mapping[int, int]) -> None:
        self.limits = limits
        self.read: list[str] = []

    def __call__(self, cgroup_parent: str) -> Mapping[int, int]:
        self.read.append(cgroup_parent)
        return self.limits


def pod(sandbox_id: str = "sandbox") -> api.PodSandbox:
    found = api.PodSandbox(id=sandbox_id, uid="uid", name="pod", namespace="ns")
    found.linux.cgroup_parent = "/kubepods/poduid"
    found.linux.pod_resources.memory.limit.value = 300 * MI
    return found


def container() -> api.Container:
    found = api.Container(id="c", pod_sandbox_id="sandbox", name="main")
    found.linux.resources.memory.limit.value = 200 * MI
    found.linux.resources.cpu.cpus = "2-3"
    found.linux.resources.cpu.mems = "1"
    return found


def test_the_kernels_figures_go_with_what_is_to_be_placed() -> None:
    use = PoolUse({0: {"hugepages-2Mi": Pool(0, 8 * MI)}}, {})
    asked: list[tuple[str, str | None]] = []

    def read(pod: events.PodSandbox, container: events.Container | None) -> PoolUse:
        asked.append((pod.uid, None if container is None else container.name))
        return use

    decoder = Decoder(PodCgroups({}), pool_use=read)
    assert decoder.run_pod_sandbox(pod()).pool_use is use
    request = api.CreateContainerRequest(pod=pod(), container=container())
    assert decoder.create_container(request).pool_use is use
    assert asked == [("uid", None), ("uid", "main")]


def create(made: api.Container) -> events.Container:
    request = api.CreateContainerRequest(pod=pod(), container=made)
    return Decoder(PodCgroups({})).create_container(request).container


def test_create_container_carries_what_a_decision_needs() -> None:
    cgroups = PodCgroups({2 * MI: 4 * MI})
    request = api.CreateContainerRequest(pod=pod(), container=container())
    assert Decoder(cgroups).create_container(request) == events.CreateContainer(
        events.PodSandbox(
            sandbox_id="sandbox",
            uid="uid",
            namespace="ns",
            name="pod",
            cgroup_parent="/kubepods/poduid",
            memory_limit_bytes=300 * MI,
            hugepage_limits={2 * MI: 4 * MI},
        ),
        events.Container(
            container_id="c",
            sandbox_id="sandbox",
            name="main",
            memory_limit_bytes=200 * MI,
            hugepage_limits=None,
            cpuset_mems="1",
            cpuset_cpus="2-3",
        ),
    )
    assert cgroups.read == ["/kubepods/poduid"]


def test_an_empty_message_is_no_error() -> None:
    event = Decoder(PodCgroups({})).create_container(api.CreateContainerRequest())
    assert event.pod.cgroup_parent == ""
    assert event.container.memory_limit_bytes is None


def test_zero_absent_and_unlimited_memory_are_no_limit() -> None:
    for value in (0, -1):
        made = container()
        made.linux.resources.memory.limit.value = value
        assert create(made).memory_limit_bytes is None
    assert create(api.Container()).memory_limit_bytes is None


def test_hugepage_limits_that_are_shown_count_zeros_too() -> None:
    made = container()
    made.linux.resources.hugepage_limits.add(page_size="2MB", limit=4 * MI)
    made.linux.resources.hugepage_limits.add(page_size="1GB", limit=0)
    made.linux.resources.hugepage_limits.add(page_size="many", limit=7)
    assert create(made).hugepage_limits == {2 * MI: 4 * MI, 1024 * MI: 0}


def test_hugepage_limits_in_unified_keys() -> None:
    made = container()
    made.linux.resources.unified.update(
        {
            "hugetlb.2MB.max": str(6 * MI),
            "hugetlb.2MB.rsvd.max": str(6 * MI),
            "hugetlb.1GB.max": "max",
            "memory.min": "5",
        }
    )
    assert create(made).hugepages_unified == {2 * MI: 6 * MI}


def test_the_pods_cgroup_is_read_once_per_sandbox_and_anew_when_it_runs_again() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(cgroups)
    decoder.run_pod_sandbox(pod())
    decoder.create_container(api.CreateContainerRequest(pod=pod(), container=container()))
    assert len(cgroups.read) == 1
    decoder.run_pod_sandbox(pod())
    assert len(cgroups.read) == 2
    decoder.forget_sandboxes()
    decoder.sandbox(pod())
    assert len(cgroups.read) == 3


def test_events_of_what_has_ended_do_not_look_at_the_cgroup() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(cgroups)
    request = api.StopContainerRequest(pod=pod(), container=container())
    assert decoder.stop_container(request).container.container_id == "c"
    removal = api.RemoveContainerRequest(pod=pod(), container=container())
    assert decoder.remove_container(removal).pod.uid == "uid"
    assert decoder.stop_pod_sandbox(pod()).pod.uid == "uid"
    assert decoder.remove_pod_sandbox(pod()).pod.uid == "uid"
    assert cgroups.read == []


def test_the_memory_of_sandboxes_is_bounded() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(cgroups)
    for number in range(_SANDBOXES_KEPT + 1):
        decoder.run_pod_sandbox(pod(f"sandbox-{number}"))
    assert len(decoder._limits) == _SANDBOXES_KEPT
    assert "sandbox-0" not in decoder._limits


def test_a_running_container_tells_whether_it_has_ended() -> None:
    ended = container()
    ended.state = api.CONTAINER_STOPPED
    decoder = Decoder(PodCgroups({}))
    found = [decoder.running_container(told, "/kubepods/poduid") for told in (ended, container())]
    assert [told.ended for told in found] == [True, False]


def test_update_container_has_the_new_limit() -> None:
    request = api.UpdateContainerRequest(pod=pod(), container=container())
    decoder = Decoder(PodCgroups({}))
    assert decoder.update_container(request).memory_limit_bytes is None
    request.linux_resources.memory.limit.value = 400 * MI
    event = decoder.update_container(request)
    assert event.memory_limit_bytes == 400 * MI
    assert event.container.memory_limit_bytes == 200 * MI


class SomeDevices:
    """Knows the nodes of all devices, 1; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[Device]]] = []

    def __call__(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        found = list(devices)
        self.asked.append((cgroup_parent, found))
        return (NodeSet([1]),) * len(found)


def with_devices(count: int = 1) -> api.Container:
    made = container()
    for minor in range(count):
        made.linux.devices.add(path=f"/dev/vfio/{minor}", type="c", major=511, minor=minor)
    return made


def test_devices_are_looked_at_when_a_container_is_created() -> None:
    devices = SomeDevices()
    decoder = Decoder(PodCgroups({}), devices)
    request = api.CreateContainerRequest(pod=pod(), container=with_devices())
    assert decoder.create_container(request).container.device_nodes == (NodeSet([1]),)
    assert devices.asked == [("/kubepods/poduid", [Device("c", 511, 0, "/dev/vfio/0")])]
    decoder.running_container(with_devices(), "/kubepods/poduid")
    decoder.stop_container(api.StopContainerRequest(pod=pod(), container=with_devices()))
    decoder.create_container(api.CreateContainerRequest(pod=pod(), container=container()))
    assert len(devices.asked) == 1


def test_only_so_many_devices_are_looked_at() -> None:
    request = api.CreateContainerRequest(pod=pod(), container=with_devices(_DEVICES_LIMIT + 9))
    found = Decoder(PodCgroups({}), SomeDevices()).create_container(request).container
    assert len(found.device_nodes) == _DEVICES_LIMIT


def test_without_a_reader_devices_say_nothing() -> None:
    assert create(with_devices()).device_nodes == ()


@pytest.mark.parametrize(
    ("rule", "is_privileged"),
    [
        (api.LinuxDeviceCgroup(allow=True), True),
        (api.LinuxDeviceCgroup(allow=True, type="a"), True),
        (api.LinuxDeviceCgroup(allow=False), False),
        (api.LinuxDeviceCgroup(allow=True, type="c"), False),
        (api.LinuxDeviceCgroup(allow=True, major=api.OptionalInt64(value=0)), False),
        (api.LinuxDeviceCgroup(allow=True, minor=api.OptionalInt64(value=0)), False),
    ],
)
def test_all_devices_of_the_host_are_none_in_particular(
    rule: api.LinuxDeviceCgroup, is_privileged: bool
) -> None:
    made = with_devices()
    made.linux.resources.devices.append(rule)
    devices = SomeDevices()
    request = api.CreateContainerRequest(pod=pod(), container=made)
    Decoder(PodCgroups({}), devices).create_container(request)
    assert len(devices.asked) == (0 if is_privileged else 1)


def test_cpu_shares() -> None:
    made = container()
    made.linux.resources.cpu.shares.value = 2048
    assert create(made).cpu_shares == 2048
    assert create(container()).cpu_shares is None


class SomeMems:
    """Has one cgroup with nodes; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, cgroup_parent: str, cgroups_path: str) -> NodeSet:
        self.asked.append((cgroup_parent, cgroups_path))
        return NodeSet([3] if cgroups_path == "a.slice:cri-containerd:c" else [])


def test_cgroups_of_containers_are_looked_at_when_everything_is_told() -> None:
    placed, nowhere, ended = (container() for _ in range(3))
    placed.linux.cgroups_path = "a.slice:cri-containerd:c"
    nowhere.linux.cgroups_path = "b"
    ended.state = api.CONTAINER_STOPPED
    mems = SomeMems()
    decoder = Decoder(PodCgroups({}), container_mems=mems)
    parent = "/kubepods/poduid"
    found = [decoder.running_container(told, parent) for told in (placed, nowhere, ended)]
    found.append(decoder.running_container(placed, None))
    assert [told.cgroup_mems for told in found] == [NodeSet([3]), *[NodeSet()] * 3]
    assert [told.cpuset_mems for told in found] == ["1"] * 4
    asked = [(parent, "a.slice:cri-containerd:c"), (parent, "b")]
    assert mems.asked == asked
    request = api.CreateContainerRequest(pod=pod(), container=placed)
    assert decoder.create_container(request).container.cgroup_mems == NodeSet()
    assert mems.asked == asked


def test_without_a_reader_cgroups_of_containers_say_nothing() -> None:
    found = Decoder(PodCgroups({})).running_container(container(), "/kubepods/poduid")
    assert found.cgroup_mems == NodeSet()
