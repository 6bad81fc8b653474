"""Network interfaces of a request: by sysfs, by the pod's namespace, and when nothing is read."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.namespace_reader import (
    NOT_READ_YET,
    HelperEndedError,
    HelperProcess,
    NamespaceError,
)
from nri_numamem.daemon.network_hints import (
    NO_ACCESS,
    NamespaceAccess,
    NetworkHints,
    open_namespaces,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.daemon.fake_namespace_helper import FakeHelper

PATH = "/run/netns/cni-1"
REPLY = {"interfaces": [["eth0", "0", True], ["net1", "1", False]]}
ETH0, NET1 = NetworkInterface("eth0", NodeSet([0])), NetworkInterface("net1", NodeSet([1]))


def pod(qos: str = "", sandbox_id: str = "s") -> PodSandbox:
    return PodSandbox(sandbox_id, "u", "ns", "p", f"/kubepods/{qos}podu")


class ClosingHelper(FakeHelper):
    """A helper whose end is in `requests` as well."""

    def close(self) -> None:
        self.requests.put("closed")


class Reading:
    """A reader with an engine that tests replace, its helper and the records that it emits."""

    def __init__(self, root: Path) -> None:
        self.engine: Engine | None = engine()
        self.records: list[Record] = []
        self.helper = ClosingHelper()
        self.roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.hints = self.new_hints(NamespaceAccess(self.helper))

    def new_hints(self, access: NamespaceAccess) -> NetworkHints:
        return NetworkHints(self.roots, lambda: self.engine, self.records.append, access)

    def start(self, setting: str = "secondary", *, may_enter: bool = True) -> None:
        if not may_enter:
            self.hints = self.new_hints(NO_ACCESS)
        self.hints.started(Settings(network_hints=setting))

    def read_all(self) -> None:
        """Wait until everything that began is read."""
        self.hints.close(timeout_s=None)


def engine(policy: str = "best-effort") -> Engine:
    nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
    return Engine(Context.of(Machine(nodes), Policy(topology_manager_policy=policy)))


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    network = tmp_path / "sys/class/net"
    network.mkdir(parents=True)
    for name, parent, node in (("eth1", "pci0000:17/0000:18:00.0", "1"), ("br0", "virtual", "")):
        device = tmp_path / "sys/devices" / parent
        (device / "net" / name).mkdir(parents=True)
        if node:
            (device / "numa_node").write_text(f"{node}\n")
        (network / name).symlink_to(f"../../devices/{parent}/net/{name}")
    made = Reading(tmp_path)
    yield made
    made.helper.replies.put(REPLY)  # for a thread that a failed test left
    made.hints.close(timeout_s=None)


@pytest.mark.parametrize("setting", ["off", "secondary", "all"])
def test_it_is_active_only_where_the_setting_is_on(reading: Reading, setting: str) -> None:
    reading.start(setting)
    assert reading.hints.is_active is (setting != "off")
    assert reading.records == []


def test_devices_of_the_host_have_the_node_of_their_hardware(reading: Reading) -> None:
    reading.start()
    found = reading.hints.read(pod(), ("br0", "eth1"), "")
    eth1, br0 = NetworkInterface("eth1", NodeSet([1])), NetworkInterface("br0", NodeSet())
    assert found == NetworkRequest((br0, eth1))


def test_a_device_that_sysfs_does_not_show_is_an_obstacle(reading: Reading) -> None:
    reading.start()
    found = reading.hints.read(pod(), ("eth1", "eth7", "eth8"), "")
    assert found is not None
    assert found.obstacle == "/sys/class/net does not have eth7, eth8"
    assert [each.nodes for each in found.interfaces] == [NodeSet([1]), NodeSet(), NodeSet()]


def test_nothing_is_read_where_devices_have_no_effect(reading: Reading) -> None:
    reading.start()
    assert reading.hints.read(pod(), (), "") is None
    for found in (pod("burstable/"), pod()):
        assert reading.hints.read(found, ("eth1",), PATH) is None
        reading.hints.sandbox_started(found, PATH)
        reading.engine = engine("none")
    reading.engine = None
    assert reading.hints.read(pod(), ("eth1",), PATH) is None
    reading.hints.sandbox_started(pod(), PATH)
    assert reading.helper.requests.empty()


@pytest.mark.parametrize(("setting", "expected"), [("secondary", (NET1,)), ("all", (ETH0, NET1))])
def test_interfaces_of_the_pod_count_once_they_are_read(
    reading: Reading, setting: str, expected: tuple[NetworkInterface, ...]
) -> None:
    reading.start(setting)
    reading.hints.sandbox_started(pod(), PATH)
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest((), NOT_READ_YET.obstacle)
    reading.helper.replies.put(REPLY)
    reading.read_all()
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest(expected)
    found = reading.hints.read(pod(), ("eth1",), PATH)
    assert found is not None
    assert [each.name for each in found.interfaces] == ["eth1", *(each.name for each in expected)]


def test_an_unknown_sandbox_is_read_for_its_next_container(reading: Reading) -> None:
    reading.start()
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest((), NOT_READ_YET.obstacle)
    reading.helper.replies.put(REPLY)
    reading.read_all()
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest((NET1,))


def test_a_failed_read_is_an_obstacle_and_is_repeated(reading: Reading) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), PATH)
    reading.helper.replies.put(NamespaceError("it is late"))
    reading.read_all()
    found = reading.hints.read(pod(), ("eth7",), PATH)
    assert found is not None
    assert found.obstacle == (
        "/sys/class/net does not have eth7; the pod's network namespace /run/netns/cni-1 cannot "
        "be read: it is late"
    )
    reading.helper.replies.put(REPLY)
    reading.read_all()
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest((NET1,))


def test_a_pod_in_the_hosts_network_is_not_read(reading: Reading) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), "")
    assert reading.hints.read(pod(), (), "") is None
    assert reading.helper.requests.empty()


def test_the_end_of_a_sandbox_drops_what_was_read(reading: Reading) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), PATH)
    reading.helper.replies.put(REPLY)
    reading.read_all()
    reading.hints.sandbox_ended("s")
    reading.helper.replies.put(REPLY)
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest((), NOT_READ_YET.obstacle)


def test_without_the_capability_namespaces_are_left_out(reading: Reading) -> None:
    reading.start(may_enter=False)
    (record,) = reading.records
    assert record.event == "network_namespaces_closed"
    assert fields_of(record) == {"cause": "the plugin lacks the capability CAP_SYS_ADMIN"}
    reading.hints.sandbox_started(pod(), PATH)
    assert reading.hints.read(pod(), (), PATH) == NetworkRequest()
    assert reading.hints.read(pod(), ("eth1",), PATH) == NetworkRequest(
        (NetworkInterface("eth1", NodeSet([1])),)
    )
    reading.hints.sandbox_ended("s")


def test_the_helper_ends_with_the_plugin(reading: Reading) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), PATH)
    reading.helper.replies.put(REPLY)
    reading.hints.close(timeout_s=None)
    assert [reading.helper.requests.get(), reading.helper.requests.get()] == [PATH, "closed"]


def test_the_end_of_the_plugin_does_not_wait_for_a_helper_that_hangs(reading: Reading) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), PATH)
    assert reading.helper.requests.get() == PATH
    reading.hints.close(timeout_s=0.0)  # the helper sends no reply
    reading.helper.replies.put(REPLY)
    assert reading.helper.requests.get() == "closed"


def test_a_helper_that_has_ended_is_one_record_and_no_obstacle_from_then_on(
    reading: Reading,
) -> None:
    reading.start()
    reading.hints.sandbox_started(pod(), PATH)
    reading.helper.replies.put(HelperEndedError("the helper process ended"))
    reading.read_all()
    for _ in range(2):
        assert reading.hints.read(pod(), (), PATH) == NetworkRequest()
        reading.hints.sandbox_started(pod(sandbox_id="t"), PATH)
    (record,) = reading.records
    assert record.event == "network_namespaces_closed"
    assert fields_of(record) == {"cause": "the helper process ended; restart the plugin"}
    assert reading.helper.requests.get() == PATH


def _status(roots: HostRoots, capabilities: int) -> None:
    status = roots.proc / "self/status"
    status.parent.mkdir(parents=True)
    status.write_text(f"CapEff:\t{capabilities:016x}\n")


def test_a_helper_is_started_with_setting_and_capability_only(reading: Reading) -> None:
    roots, secondary = reading.roots, Settings(network_hints="secondary")
    off = open_namespaces(Settings(), roots)
    assert off.obstacle == "networkHints was off when the plugin started; restart it"
    assert open_namespaces(secondary, roots) == NO_ACCESS
    _status(roots, 1 << 21)
    assert open_namespaces(Settings(), roots) == off
    found = open_namespaces(secondary, roots)
    assert isinstance(found.helper, HelperProcess)
    found.helper.close()


def test_a_helper_that_cannot_be_forked_is_an_obstacle(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    _status(reading.roots, 1 << 21)
    monkeypatch.setattr(os, "fork", fork)
    found = open_namespaces(Settings(network_hints="all"), reading.roots)
    assert found.helper is None
    assert found.obstacle == "the helper cannot be started: Resource temporarily unavailable"
