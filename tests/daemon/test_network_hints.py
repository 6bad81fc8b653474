"""Network interfaces of a request: their NUMA nodes by sysfs, and when nothing is read."""

from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.network_hints import NetworkHints
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import NetworkInterface, NetworkRequest, PodSandbox
from nri_numamem.engine.policy import Policy
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import Machine, NodeSet, NumaNode


def pod(qos: str = "") -> PodSandbox:
    return PodSandbox("s", "u", "ns", "p", f"/kubepods/{qos}podu")


class Reading:
    """A reader with an engine that tests replace."""

    def __init__(self, root: Path) -> None:
        self.engine: Engine | None = engine()
        roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.hints = NetworkHints(roots, lambda: self.engine)


def engine(policy: str = "best-effort") -> Engine:
    nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
    return Engine(Context.of(Machine(nodes), Policy(topology_manager_policy=policy)))


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    network = tmp_path / "sys/class/net"
    network.mkdir(parents=True)
    for name, parent, node in (("eth1", "pci0000:17/0000:18:00.0", "1"), ("br0", "virtual", "")):
        device = tmp_path / "sys/devices" / parent
        (device / "net" / name).mkdir(parents=True)
        if node:
            (device / "numa_node").write_text(f"{node}\n")
        (network / name).symlink_to(f"../../devices/{parent}/net/{name}")
    return Reading(tmp_path)


@pytest.mark.parametrize("setting", ["off", "secondary", "all"])
def test_it_is_active_only_where_the_setting_is_on(reading: Reading, setting: str) -> None:
    reading.hints.started(Settings(network_hints=setting))
    assert reading.hints.is_active is (setting != "off")


def test_devices_of_the_host_have_the_node_of_their_hardware(reading: Reading) -> None:
    found = reading.hints.read(pod(), ("br0", "eth1"))
    eth1, br0 = NetworkInterface("eth1", NodeSet([1])), NetworkInterface("br0", NodeSet())
    assert found == NetworkRequest((br0, eth1))


def test_a_device_that_sysfs_does_not_show_is_an_obstacle(reading: Reading) -> None:
    found = reading.hints.read(pod(), ("eth1", "eth7", "eth8"))
    assert found is not None
    assert found.obstacle == "/sys/class/net does not have eth7, eth8"
    assert [interface.nodes for interface in found.interfaces] == [
        NodeSet([1]),
        NodeSet(),
        NodeSet(),
    ]


def test_nothing_is_read_where_devices_have_no_effect(reading: Reading) -> None:
    assert reading.hints.read(pod(), ()) is None
    assert reading.hints.read(pod("burstable/"), ("eth1",)) is None
    reading.engine = engine("none")
    assert reading.hints.read(pod(), ("eth1",)) is None
    reading.engine = None
    assert reading.hints.read(pod(), ("eth1",)) is None
