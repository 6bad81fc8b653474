"""Network devices: parents as rtnetlink reports them, NUMA nodes from a tree of sysfs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri_numamem.host.network import (
    NetworkDevice,
    devices_of,
    interface_nodes,
    read_network_devices,
)
from nri_numamem.numa import NodeSet


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
