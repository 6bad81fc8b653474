"""Network devices of host and pods: parents and routes by rtnetlink, NUMA nodes by sysfs."""

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nri_numamem.host import network
from nri_numamem.host.network import (
    NetworkDevice,
    PodInterface,
    Rtnetlink,
    devices_of,
    interface_nodes,
    interfaces_of,
    read_network_devices,
    read_pod_interfaces,
)
from nri_numamem.numa import NodeSet

OWN = Path("/proc/self/ns/net")
NET1 = PodInterface("net1", NodeSet([1]), is_primary=False)
NET2 = PodInterface("net2", NodeSet([2]), is_primary=False)
PRIMARY = PodInterface("net1", NodeSet([1]), is_primary=True)


@dataclass
class FakeLink:
    attributes: Mapping[str, object]
    index: int = 1

    def __getitem__(self, name: str, /) -> object:
        assert name == "index"
        return self.index

    def get_attr(self, name: str, /) -> object:
        return self.attributes.get(name)


@dataclass
class FakeSource:
    links: list[FakeLink]

    def get_links(self) -> list[FakeLink]:
        return self.links


def link(name: str, bus: str | None = None, parent: str | None = None) -> FakeLink:
    found = {"IFLA_IFNAME": name, "IFLA_PARENT_DEV_BUS_NAME": bus, "IFLA_PARENT_DEV_NAME": parent}
    return FakeLink({key: value for key, value in found.items() if value is not None})


def plug_in(root: Path, address: str, node: int | None) -> None:
    """Make a PCI device with a virtio device below it."""
    device = root / "devices" / "pci0000:00" / address
    (device / "virtio0").mkdir(parents=True)
    if node is not None:
        (device / "numa_node").write_text(f"{node}\n")
    for bus, path in (("pci", device), ("virtio", device / "virtio0")):
        links = root / "bus" / bus / "devices"
        links.mkdir(parents=True, exist_ok=True)
        name = address if bus == "pci" else f"virtio-{address}"
        (links / name).symlink_to(path)


def test_a_device_has_its_parents_node(tmp_path: Path) -> None:
    plug_in(tmp_path, "0000:3b:00.0", 1)
    source = FakeSource([link("ens1", "pci", "0000:3b:00.0")])
    expected = NetworkDevice("ens1", "pci 0000:3b:00.0", NodeSet([1]), 1)
    assert devices_of(source, tmp_path) == [expected]


def test_the_node_may_be_that_of_an_ancestor(tmp_path: Path) -> None:
    plug_in(tmp_path, "0000:00:03.0", 2)
    source = FakeSource([link("eth0", "virtio", "virtio-0000:00:03.0")])
    (device,) = devices_of(source, tmp_path)
    assert device.numa_nodes == NodeSet([2])


@pytest.mark.parametrize("node", [None, -1])
def test_a_node_that_firmware_does_not_report_is_unknown(tmp_path: Path, node: int | None) -> None:
    plug_in(tmp_path, "0000:3b:00.0", node)
    (device,) = devices_of(FakeSource([link("ens1", "pci", "0000:3b:00.0")]), tmp_path)
    assert device.numa_nodes is None


def test_a_parent_that_sysfs_does_not_show_is_unknown(tmp_path: Path) -> None:
    (device,) = devices_of(FakeSource([link("ens1", "pci", "0000:3b:00.0")]), tmp_path)
    assert device.numa_nodes is None


def test_a_parent_name_cannot_leave_the_tree(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "numa_node").write_text("3\n")
    root = tmp_path / "sys"
    (root / "bus" / "pci" / "devices").mkdir(parents=True)
    (root / "bus" / "pci" / "devices" / "x").symlink_to(outside)
    (device,) = devices_of(FakeSource([link("ens1", "pci", "x\0")]), root)
    assert device.numa_nodes is None
    (device,) = devices_of(FakeSource([link("ens1", "pci", "x")]), root)
    assert device.numa_nodes is None


def test_virtual_devices_are_left_out_and_the_others_sorted(tmp_path: Path) -> None:
    links = [link("lo"), link("ens2", "pci", "b"), link("veth0"), link("ens1", "pci", "a")]
    assert [device.name for device in devices_of(FakeSource(links), tmp_path)] == ["ens1", "ens2"]


def test_this_host() -> None:
    """Every host has loopback, which has no parent."""
    assert "lo" not in [device.name for device in read_network_devices(Path("/sys"))]


def name_interface(root: Path, name: str, device: Path) -> None:
    """Make a network interface of a device."""
    directory = device / "net" / name
    directory.mkdir(parents=True)
    (root / "class" / "net").mkdir(parents=True, exist_ok=True)
    (root / "class" / "net" / name).symlink_to(directory)


@pytest.mark.parametrize(("node", "expected"), [(2, [2]), (-1, []), (None, [])])
def test_an_interface_has_the_node_of_the_nearest_device_upwards(
    tmp_path: Path, node: int | None, expected: list[int]
) -> None:
    plug_in(tmp_path, "0000:00:03.0", node)
    name_interface(tmp_path, "eth1", tmp_path / "devices/pci0000:00/0000:00:03.0/virtio0")
    assert interface_nodes(tmp_path, "eth1") == NodeSet(expected)


def test_a_virtual_interface_has_no_node(tmp_path: Path) -> None:
    name_interface(tmp_path, "br0", tmp_path / "devices/virtual")
    assert interface_nodes(tmp_path, "br0") == NodeSet()


@pytest.mark.parametrize("name", ["eth7", "../net/eth1", "eth1\0", "."])
def test_a_name_that_sysfs_does_not_have_is_none(tmp_path: Path, name: str) -> None:
    plug_in(tmp_path, "0000:00:03.0", 1)
    name_interface(tmp_path, "eth1", tmp_path / "devices/pci0000:00/0000:00:03.0")
    assert interface_nodes(tmp_path, name) is None


@dataclass
class FakeRoute:
    attributes: dict[str, object]

    def get_attr(self, name: str, /) -> object:
        return self.attributes.get(name)


@dataclass
class FakeNamespace:
    links: list[FakeLink]
    routes: list[FakeRoute] = field(default_factory=list)

    def get_links(self) -> list[FakeLink]:
        return self.links

    def get_default_routes(self) -> list[FakeRoute]:
        return self.routes


def links() -> list[FakeLink]:
    """Return loopback, a veth, and two functions of cards on the nodes 1 and 2."""
    found = [
        link("lo"),
        link("eth0"),
        link("net1", "pci", "0000:3b:00.0"),
        link("net2", "pci", "0000:86:00.0"),
    ]
    for index, each in enumerate(found, start=1):
        each.index = index
    return found


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    plug_in(tmp_path, "0000:3b:00.0", 1)
    plug_in(tmp_path, "0000:86:00.0", 2)
    return tmp_path


def test_interfaces_with_hardware_have_its_node(sysfs: Path) -> None:
    assert interfaces_of(FakeNamespace(links()), sysfs) == [NET1, NET2]


def test_a_node_that_firmware_does_not_report_is_empty(tmp_path: Path) -> None:
    plug_in(tmp_path, "0000:3b:00.0", -1)
    found = interfaces_of(FakeNamespace([link("net1", "pci", "0000:3b:00.0")]), tmp_path)
    assert [interface.nodes for interface in found] == [NodeSet()]


@pytest.mark.parametrize(
    "attributes",
    [{"RTA_OIF": 3}, {"RTA_MULTIPATH": [{"oif": 3}, {"oif": 2}]}],
    ids=["one", "several"],
)
def test_an_interface_with_a_default_route_is_primary(
    sysfs: Path, attributes: dict[str, object]
) -> None:
    assert interfaces_of(FakeNamespace(links(), [FakeRoute(attributes)]), sysfs) == [PRIMARY, NET2]


def test_a_default_route_by_another_interface_changes_nothing(sysfs: Path) -> None:
    source = FakeNamespace(links(), [FakeRoute({"RTA_OIF": 2})])
    assert interfaces_of(source, sysfs) == [NET1, NET2]


def test_the_own_namespace_has_no_interfaces() -> None:
    """A pod in the host's network shows the host's namespace."""
    assert read_pod_interfaces(OWN, Path("/sys")) == []


def test_a_path_that_is_no_namespace_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_pod_interfaces(tmp_path / "none", Path("/sys"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r".") as caught:
        read_pod_interfaces(tmp_path / "file", Path("/sys"))
    assert caught.value.errno in (errno.EINVAL, errno.EPERM)


@pytest.fixture
def namespace() -> Iterator[Path]:
    """Yield the network namespace of a process, which has a loopback device only."""
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = ["unshare", "--net", sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip("this process may not make network namespaces")
        yield Path(f"/proc/{process.pid}/ns/net")
        process.stdin.close()


def test_the_links_are_those_of_the_namespace(
    namespace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is back in its own namespace afterwards, also after an error."""
    before = OWN.stat()
    seen: list[tuple[int, list[object]]] = []

    def names(source: Rtnetlink, _sysfs: Path) -> list[PodInterface]:
        found = [each.get_attr("IFLA_IFNAME") for each in source.get_links()]
        seen.append((OWN.stat().st_ino, found))
        assert list(source.get_default_routes()) == []
        if len(seen) > 1:
            raise OSError(errno.EIO, "no reply")
        return []

    monkeypatch.setattr(network, "interfaces_of", names)
    assert read_pod_interfaces(namespace, Path("/sys")) == []
    assert seen == [(namespace.stat().st_ino, ["lo"])]
    with pytest.raises(OSError, match="no reply"):
        read_pod_interfaces(namespace, Path("/sys"))
    assert os.path.samestat(before, OWN.stat())


def test_a_namespace_without_hardware_has_no_interfaces(namespace: Path) -> None:
    assert read_pod_interfaces(namespace, Path("/sys")) == []


def test_a_refused_entry_raises(namespace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def setns(_descriptor: int, _kind: int) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_arguments, **_options: Library)
    with pytest.raises(PermissionError):
        read_pod_interfaces(namespace, Path("/sys"))
