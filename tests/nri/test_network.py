"""The network devices of a request: which names reach the reader, and when it is asked at all."""

from dataclasses import dataclass, field

from nri_numamem.engine import events
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.network import NoNetwork
from nri_numamem.numa import NodeSet

REQUEST = events.NetworkRequest((events.NetworkInterface("eth1", NodeSet([2])),))


@dataclass
class Reader:
    is_active: bool = True
    names: list[tuple[str, ...]] = field(default_factory=list)

    def read(self, pod: events.PodSandbox, host_names: tuple[str, ...]) -> events.NetworkRequest:
        assert pod.uid == "uid"
        self.names.append(host_names)
        return REQUEST


def created(reader: Reader | None, *names: str) -> events.CreateContainer:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id="s", uid="uid"), container=api.Container(id="c", name="main")
    )
    for name in names:
        request.container.linux.net_devices[name].name = "eth0"
    return Decoder(lambda _parent: {}, network=reader).create_container(request)


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
    reader = Reader(is_active=False)
    assert created(reader, "eth1").network is None
    assert created(None, "eth1").network is None
    assert reader.names == []


def test_nothing_is_read_by_default() -> None:
    NoNetwork().read(events.PodSandbox("s", "u", "ns", "p", ""), ("eth1",))
    assert not NoNetwork.is_active
