"""Interfaces of a pod: parents and default routes by rtnetlink, in a real network namespace."""

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nri_numamem.host import network_namespace
from nri_numamem.host.network_namespace import (
    NamespaceSource,
    PodInterface,
    interfaces_of,
    read_pod_interfaces,
)
from nri_numamem.numa import NodeSet
from tests.host.test_network import FakeLink, link, plug_in

OWN = Path("/proc/self/ns/net")


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


NET1 = PodInterface("net1", NodeSet([1]), is_primary=False)
NET2 = PodInterface("net2", NodeSet([2]), is_primary=False)
PRIMARY = PodInterface("net1", NodeSet([1]), is_primary=True)


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

    def names(source: NamespaceSource, _sysfs: Path) -> list[PodInterface]:
        found = [each.get_attr("IFLA_IFNAME") for each in source.get_links()]
        seen.append((OWN.stat().st_ino, found))
        assert list(source.get_default_routes()) == []
        if len(seen) > 1:
            raise OSError(errno.EIO, "no reply")
        return []

    monkeypatch.setattr(network_namespace, "interfaces_of", names)
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
