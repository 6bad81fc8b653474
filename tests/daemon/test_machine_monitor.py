"""When the machine is read, and the changes and records that follow."""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.daemon import machine_monitor
from nri_numamem.daemon.machine_monitor import READ_S, RELOG_S, MachineMonitor, build_engine
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.host import sysfs
from nri_numamem.host.hugepages import SYSTEM_POOLS
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.topology import read_machine
from nri_numamem.host.uevents import UeventSocket
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.threads import NO_THREAD
from tests.engine.records.examples import example
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

GI = 1 << 30
PAGE = 2 << 20
PAGES = "hugepages-2Mi"
ONLINE = b"online@/devices/system/memory/memory33\0ACTION=online\0DEVPATH=/x\0"
RESERVED = Policy(reserved_memory=(Reservation(1, {"memory": GI}),))


@dataclass
class Bench:
    """A simulated host, an engine, and a monitor whose time the test sets."""

    root: Path
    watch: MachineMonitor
    engine: Engine
    emitted: list[Record] = field(default_factory=list)
    now_s: float = 0.0

    def write(self, *nodes: NumaNode) -> None:
        write_overlay(overlay_of(Machine(nodes)), self.root)

    def in_use(self, node: int, pages: int) -> None:
        pool = f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
        (self.root / pool / "free_hugepages").write_text(f"{64 - pages}\n")

    def promised(self, pages: int) -> None:
        pool = "sys/kernel/mm/hugepages/hugepages-2048kB"
        (self.root / pool / "resv_hugepages").write_text(f"{pages}\n")

    def after(self, seconds: float) -> list[Record]:
        """Let time pass; return the records of the next tick."""
        self.now_s += seconds
        self.emitted.clear()
        assert self.watch.due(self.now_s)
        assert self.watch.run(self.now_s) == ()
        return list(self.emitted)

    def look(self) -> list[str]:
        return [record.event for record in self.after(READ_S)]


def nodes(*sizes_bytes: int, pages: int = 64) -> list[NumaNode]:
    return [NumaNode(n, size, {PAGE: pages}, CpuSet([n])) for n, size in enumerate(sizes_bytes)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    write_overlay(overlay_of(Machine(tuple(nodes(4 * GI, 4 * GI)))), tmp_path)
    sysfs, proc = tmp_path / "sys", tmp_path / "proc"
    engine = Engine(Context.of(read_machine(sysfs, proc), RESERVED))
    emitted: list[Record] = []
    roots = HostRoots(sysfs, proc, tmp_path / "cgroup")
    watch = MachineMonitor(roots, lambda: engine, emitted.append)
    watch.begin(0.0)
    yield Bench(tmp_path, watch, engine, emitted)
    watch.close()


def test_nothing_happens_on_a_machine_that_stays(bench: Bench) -> None:
    assert [bench.look() for _ in range(3)] == [[], [], []]
    idle = MachineMonitor(HostRoots(), lambda: None, bench.emitted.append)
    assert idle.run(1e9) == ()
    assert bench.emitted == []


def test_a_change_is_detected_after_the_interval(bench: Bench) -> None:
    bench.write(*nodes(8 * GI, 4 * GI))
    assert bench.after(READ_S - 0.1) == []
    (record,) = bench.after(0.1)
    assert record.event == "machine_changed"
    assert bench.engine.context.machine == Machine(tuple(nodes(8 * GI, 4 * GI)))
    assert bench.engine.state.accounting.machine_state[0].memory_map["memory"].total == 8 * GI
    assert bench.look() == []


def test_a_pool_that_was_resized_is_seen(bench: Bench) -> None:
    bench.write(*nodes(4 * GI, 4 * GI, pages=100))
    assert bench.look() == ["machine_changed"]
    assert bench.engine.state.accounting.machine_state[1].table(PAGES).free == 100 * PAGE


def test_a_machine_that_contradicts_the_settings_is_logged_once(bench: Bench) -> None:
    refused = ["machine_change_rejected"]
    bench.write(*nodes(4 * GI, GI))
    assert bench.look() == refused
    assert bench.look() == []
    # Another machine that is rejected for the same reason.
    bench.write(*nodes(3 * GI, GI))
    assert bench.look() == []
    bench.write(*nodes(3 * GI, GI, pages=60))
    assert bench.look() == refused
    assert bench.engine.context.machine == Machine(tuple(nodes(4 * GI, 4 * GI)))
    # The first machine again: no record. Then another one.
    bench.write(*nodes(4 * GI, 4 * GI))
    assert bench.look() == []
    bench.write(*nodes(4 * GI, 2 * GI))
    assert bench.look() == ["machine_changed"]
    bench.write(*nodes(3 * GI, GI))
    assert bench.look() == refused


def test_an_unreadable_machine_is_logged_once(bench: Bench) -> None:
    meminfo = bench.root / "sys/devices/system/node/node1/meminfo"
    text = meminfo.read_text()
    meminfo.write_text("?")
    (record,) = bench.after(READ_S)
    assert (record.event, record.level) == ("machine_unreadable", "warning")
    assert str(fields_of(record)["error"]).startswith(f"{meminfo}: ")
    assert bench.look() == []
    meminfo.write_text(text)
    assert bench.look() == []
    meminfo.write_text("?")
    assert bench.look() == ["machine_unreadable"]


def test_a_bug_does_not_end_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_event: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(bench.engine, "apply", fail)
    bench.write(*nodes(8 * GI, 4 * GI))
    (record,) = bench.after(READ_S)
    assert (record.event, record.level) == ("machine_monitor_failed", "error")
    assert "RuntimeError: oops" in str(fields_of(record)["exception"])
    assert bench.look() == []


# Pages that processes outside of pods use


def test_a_lasting_difference_is_logged_when_it_begins_changes_and_ends(bench: Bench) -> None:
    bench.in_use(1, 8)
    assert bench.look() == []
    (record,) = bench.after(READ_S)
    assert record == example("non_pod_hugepages_found", {"non_pod_bytes": {"1": {PAGES: 8 * PAGE}}})
    assert bench.look() == []
    bench.in_use(1, 9)
    assert [bench.look() for _ in range(3)] == [[], ["non_pod_hugepages_found"], []]
    bench.in_use(1, 0)
    assert [bench.look() for _ in range(3)] == [
        [],
        ["non_pod_hugepages_cleared"],
        [],
    ]


def test_a_difference_that_changes_all_the_time_is_logged_once_a_minute(bench: Bench) -> None:
    emitted = []
    for pages in range(1, 14):
        bench.in_use(0, pages)
        emitted.append(len(bench.look()))
    every = round(RELOG_S / READ_S)
    assert [look for look, count in enumerate(emitted, 1) if count] == [every, 2 * every]


# What a placement needs


def pod_with(pages: int = 4, parent: str = "/kubepods/podu1") -> PodSandbox:
    limits = {PAGE: pages * PAGE} if pages else {}
    return PodSandbox("s", "u1", "ns", "db", parent, None, limits)


def test_the_pools_are_read_for_requests_for_hugepages(bench: Bench) -> None:
    bench.in_use(1, 8)
    bench.promised(3)
    requests = [
        (pod_with(), Container("c", "s", "x", GI)),
        (pod_with(0), Container("c", "s", "x", GI, {PAGE: PAGE})),
        (pod_with(0), Container("c", "s", "x", GI, None, {PAGE: PAGE})),
    ]
    for pod, container in requests:
        use = bench.watch.pool_use(bench.engine, pod, container)
        assert use is not None
        assert use.pools[1] == {PAGES: Pool(8 * PAGE, 56 * PAGE)}
        assert use.rsvd == {PAGES: 3 * PAGE}


def test_the_pools_are_searched_again_only_after_the_machine_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[str] = []
    read_names = sysfs.names_in

    def names_in(directory: Path | str) -> list[str]:
        if str(directory).endswith(SYSTEM_POOLS):  # read_machine does not list it
            searches.append(str(directory))
        return read_names(directory)

    monkeypatch.setattr(sysfs, "names_in", names_in)
    requesting = Container("c", "s", "x", GI, {PAGE: PAGE})
    bench.look()
    uses = [bench.watch.pool_use(bench.engine, pod_with(0), requesting) for _ in range(3)]
    assert uses[0] == uses[1] == uses[2]
    bench.look()
    assert bench.watch.pool_use(bench.engine, pod_with(0), requesting) == uses[0]
    assert len(searches) == 1
    bench.write(*nodes(4 * GI, 4 * GI, 4 * GI))
    bench.look()
    use = bench.watch.pool_use(bench.engine, pod_with(0), requesting)
    assert use is not None
    assert list(use.pools) == [0, 1, 2]
    assert len(searches) == 2


def test_the_cgroups_of_pods_with_hugepages_are_read(bench: Bench) -> None:
    (bench.root / "cgroup").mkdir()
    (bench.root / "cgroup/cgroup.controllers").touch()
    for number in (1, 2, 3):
        parent = f"/kubepods/podu{number}"
        pod = PodSandbox(f"s{number}", f"u{number}", "ns", "db", parent)
        limits = {PAGE: 4 * PAGE} if number < 3 else None
        container = Container(f"c{number}", pod.sandbox_id, "x", GI, limits)
        assert bench.engine.apply(CreateContainer(pod, container)).plan.refusal is None
        directory = bench.root / f"cgroup{parent}"
        directory.mkdir(parents=True)
        if number != 2:
            (directory / "hugetlb.2MB.numa_stat").write_text(f"total={PAGE} N0={PAGE} N1=0\n")
    requesting = Container("c", "s", "x", GI, {PAGE: PAGE})
    use = bench.watch.pool_use(bench.engine, pod_with(0), requesting)
    assert use is not None
    assert use.by_pods == {"u1": {0: {PAGES: PAGE}}}
    bench.watch.show(bench.engine)
    assert fields_of(bench.emitted[-1])["used_by_pods_bytes"] == {"0": {PAGES: PAGE}}


def test_the_pools_are_not_read_for_other_requests(bench: Bench) -> None:
    requesting = Container("c", "s", "x", GI, {PAGE: PAGE})
    placed = replace(requesting, cpuset_mems="0")
    for pod, container in [
        (pod_with(0), Container("c", "s", "x", GI)),
        (pod_with(0), Container("c", "s", "x", GI, {PAGE: 0, GI: 0})),
        (pod_with(parent="/kubepods/burstable/podu1"), requesting),
        (pod_with(), placed),
        (pod_with(), None),
    ]:
        assert bench.watch.pool_use(bench.engine, pod, container) is None
    assert bench.watch.pool_use(None, pod_with(), requesting) is None


def test_in_pod_scope_the_pools_are_read_for_the_pod(bench: Bench) -> None:
    settings = replace(RESERVED, topology_manager_scope="pod")
    engine = Engine(Context.of(bench.engine.context.machine, settings))
    use = bench.watch.pool_use(engine, pod_with(), None)
    assert use is not None
    assert list(use.pools) == [0, 1]
    assert bench.watch.pool_use(engine, pod_with(0), None) is None


def test_without_readable_pools_the_accounting_alone_decides(bench: Bench) -> None:
    pool = "sys/devices/system/node/node1/hugepages/hugepages-2048kB"
    (bench.root / pool / "free_hugepages").write_text("many\n")
    for count in (1, 0):
        bench.emitted.clear()
        container = Container("c", "s", "x", GI)
        assert bench.watch.pool_use(bench.engine, pod_with(), container) is None
        events = [record.event for record in bench.emitted]
        assert events == ["hugepage_pools_unreadable"] * count
    bench.emitted.clear()
    bench.watch.show(bench.engine)
    assert [record.event for record in bench.emitted] == ["machine_unreadable"]


def test_the_pools_are_logged_beside_the_accounting(bench: Bench) -> None:
    bench.in_use(0, 5)
    bench.watch.show(bench.engine)
    (record,) = bench.emitted
    assert record.event == "hugepage_pools"
    assert fields_of(record)["non_pod_bytes"] == {"0": {PAGES: 5 * PAGE}}


# The kernel's uevents


@pytest.fixture
def kernel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the kernel's end of the watch's uevents, as if this were the real /sys."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sysfs, proc = bench.root / "sys", bench.root / "proc"
    monkeypatch.setattr(machine_monitor, "_SYSFS", sysfs)
    bench.watch = MachineMonitor(
        HostRoots(sysfs, proc, bench.root / "cgroup"),
        lambda: bench.engine,
        bench.emitted.append,
        listen=lambda: UeventSocket(ours),
    )
    bench.watch.begin(0.0)
    yield theirs
    bench.watch.close()
    theirs.close()


def test_a_burst_of_uevents_causes_one_read_at_the_next_tick(
    bench: Bench, kernel: socket.socket
) -> None:
    bench.write(*nodes(8 * GI, 4 * GI))
    kernel.send(b"add@/devices/virtual/net/veth0\0ACTION=add\0")
    assert bench.after(1) == []
    for _ in range(5):
        kernel.send(ONLINE)
    assert [record.event for record in bench.after(1)] == ["machine_changed"]
    bench.write(*nodes(4 * GI, 4 * GI))
    assert bench.after(READ_S - 1) == []
    assert [record.event for record in bench.after(1)] == ["machine_changed"]


def test_the_library_is_loaded_for_a_log_at_debug_level_only(
    bench: Bench, kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = threading.Event()

    def describe(messages: tuple[bytes, ...]) -> list[str]:
        described.set()
        assert threading.current_thread() is not threading.main_thread()
        return [message.decode().partition("\0")[0] for message in messages]

    monkeypatch.setattr(machine_monitor, "describe", describe)
    kernel.send(ONLINE)
    assert bench.after(1) == []
    assert not described.is_set()
    bench.watch.logs_uevents = True
    kernel.send(ONLINE)
    bench.after(1)
    assert described.wait(30)
    wait_for_threads()
    assert bench.emitted == [
        example(
            "uevents_received",
            {
                "is_incomplete": False,
                "uevents": ["online@/devices/system/memory/memory33"],
            },
        )
    ]


def test_at_a_limit_of_threads_a_uevent_is_recorded_without_its_contents(
    bench: Bench, kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    bench.watch.logs_uevents = True
    kernel.send(ONLINE)
    bench.after(1)
    (record,) = bench.emitted
    assert fields_of(record) == {"is_incomplete": False, "error": NO_THREAD}


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "uevents":
            thread.join(30)


def test_a_library_that_is_missing_is_no_obstacle(
    bench: Bench, kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.watch.logs_uevents = True
    monkeypatch.setitem(sys.modules, "pyroute2.netlink.uevent", None)
    kernel.send(ONLINE)
    bench.after(1)
    wait_for_threads()
    (record,) = bench.emitted
    assert "pyroute2" in str(fields_of(record)["error"])


def test_without_uevents_the_machine_is_polled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden() -> UeventSocket:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    sysfs, proc = bench.root / "sys", bench.root / "proc"
    monkeypatch.setattr(machine_monitor, "_SYSFS", sysfs)
    bench.watch = MachineMonitor(
        HostRoots(sysfs, proc, bench.root / "cgroup"),
        lambda: bench.engine,
        bench.emitted.append,
        listen=forbidden,
    )
    bench.watch.begin(0.0)
    assert bench.after(1) == [
        example(
            "uevents_unavailable",
            {"error": "Operation not permitted", "poll_interval_s": 10},
        )
    ]
    assert bench.after(1) == []
    bench.write(*nodes(8 * GI, 4 * GI))
    assert bench.look() == ["machine_changed"]


def test_a_broken_uevent_socket_is_closed(bench: Bench, kernel: socket.socket) -> None:
    bench.after(1)
    assert bench.watch._uevents is not None
    bench.watch._uevents._sock.close()
    (record,) = bench.after(1)
    assert fields_of(record)["error"] == "Bad file descriptor"
    assert bench.after(1) == []


def test_a_simulated_host_has_no_uevents(tmp_path: Path) -> None:
    assert (
        MachineMonitor(HostRoots(tmp_path, tmp_path, tmp_path), lambda: None, print)._listen is None
    )
    assert MachineMonitor(HostRoots(), lambda: None, print)._listen == UeventSocket.open


def test_a_machine_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sys/devices/system: no such directory"):
        build_engine(Settings(), HostRoots(tmp_path / "sys", tmp_path / "proc"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state", '{"policyName":"Static","machineState":{},"entries":{},"checksum":1}'),
        ("state", '{"policyName":"none","defaultCpuSet":"","checksum":1}'),
        ("memory_manager_state", None),
        ("cpu_manager_state", None),
    ],
)
def test_a_state_file_of_the_kubelet_is_refused(
    tmp_path: Path, name: str, content: str | None
) -> None:
    write_overlay(overlay_of(Machine(tuple(nodes(4 * GI, 4 * GI)))), tmp_path)
    path = tmp_path / "kubelet" / name
    path.parent.mkdir()
    if content is not None:
        path.write_text(content)
    roots = HostRoots(
        tmp_path / "sys", tmp_path / "proc", tmp_path / "cgroup", tmp_path / "kubelet"
    )
    with pytest.raises(UsageError, match=rf"{path} is a state file of the kubelet; choose"):
        build_engine(Settings(state_file=str(path)), roots)
    # The plugin's own file may have the name in another directory, and any content may be damaged.
    own = tmp_path / "memory_manager_state"
    own.write_text("damaged")
    build_engine(Settings(state_file=str(own)), roots)
