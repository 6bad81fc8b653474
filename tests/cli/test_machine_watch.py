"""When the machine is looked at, what comes of it, and what is told of it."""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from nri_numamem.cli import machine_watch
from nri_numamem.cli.machine_watch import LOOK_S, RETELL_S, MachineWatch
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.plan import Record
from nri_numamem.engine.settings import MemoryReservation, Settings
from nri_numamem.machine.overlay import overlay_of, write_overlay
from nri_numamem.machine.topology import read_machine
from nri_numamem.machine.uevents import Uevents
from nri_numamem.memorymanager import Machine, NumaNode, Pool

GI = 1 << 30
PAGE = 2 << 20
PAGES = "hugepages-2Mi"
ONLINE = b"online@/devices/system/memory/memory33\0ACTION=online\0DEVPATH=/x\0"
RESERVED = Settings(reserved_memory=(MemoryReservation(1, {"memory": GI}),))


@dataclass
class Bench:
    """A simulated host, an engine, and a watch over it that is told the time."""

    root: Path
    watch: MachineWatch
    engine: Engine
    told: list[Record] = field(default_factory=list)
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
        """Let time pass; return what was told at the tick then."""
        self.now_s += seconds
        self.told.clear()
        self.watch.tick(self.engine, self.now_s)
        return list(self.told)

    def look(self) -> list[str]:
        return [record.event for record in self.after(LOOK_S)]


def nodes(*sizes_bytes: int, pages: int = 64) -> list[NumaNode]:
    return [NumaNode(n, size, {PAGE: pages}, (n,)) for n, size in enumerate(sizes_bytes)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    write_overlay(overlay_of(Machine(tuple(nodes(4 * GI, 4 * GI)))), tmp_path)
    sysfs, proc = tmp_path / "sys", tmp_path / "proc"
    engine = Engine(Context.of(read_machine(sysfs, proc), RESERVED))
    told: list[Record] = []
    watch = MachineWatch(sysfs, proc, tmp_path / "cgroup", told.append)
    watch.begin(0.0)
    yield Bench(tmp_path, watch, engine, told)
    watch.close()


def test_nothing_happens_on_a_machine_that_stays(bench: Bench) -> None:
    assert [bench.look() for _ in range(3)] == [[], [], []]
    bench.watch.tick(None, 1e9)


def test_a_change_is_seen_when_it_is_time_to_look(bench: Bench) -> None:
    bench.write(*nodes(8 * GI, 4 * GI))
    assert bench.after(LOOK_S - 0.1) == []
    (record,) = bench.after(0.1)
    assert record.event == "machine changed"
    assert bench.engine.context.machine == Machine(tuple(nodes(8 * GI, 4 * GI)))
    assert bench.engine.state.books.machine_state[0].memory_map["memory"].total == 8 * GI
    assert bench.look() == []


def test_a_pool_that_was_resized_is_seen(bench: Bench) -> None:
    bench.write(*nodes(4 * GI, 4 * GI, pages=100))
    assert bench.look() == ["machine changed"]
    assert bench.engine.state.books.machine_state[1].table(PAGES).free == 100 * PAGE


def test_a_machine_that_does_not_go_with_the_settings_is_told_once(bench: Bench) -> None:
    refused = ["machine changed, but does not go with the settings"]
    bench.write(*nodes(4 * GI, GI))
    assert bench.look() == refused
    assert bench.look() == []
    # Another such machine, the same reason.
    bench.write(*nodes(3 * GI, GI))
    assert bench.look() == []
    bench.write(*nodes(3 * GI, GI, pages=60))
    assert bench.look() == refused
    assert bench.engine.context.machine == Machine(tuple(nodes(4 * GI, 4 * GI)))
    # As it was at first: nothing to tell. Then another one again.
    bench.write(*nodes(4 * GI, 4 * GI))
    assert bench.look() == []
    bench.write(*nodes(4 * GI, 2 * GI))
    assert bench.look() == ["machine changed"]
    bench.write(*nodes(3 * GI, GI))
    assert bench.look() == refused


def test_what_cannot_be_read_is_told_once(bench: Bench) -> None:
    meminfo = bench.root / "sys/devices/system/node/node1/meminfo"
    text = meminfo.read_text()
    meminfo.write_text("?")
    (record,) = bench.after(LOOK_S)
    assert (record.event, record.level) == ("cannot look at the machine", "warning")
    assert str(record.fields["error"]).startswith(f"{meminfo}: ")
    assert bench.look() == []
    meminfo.write_text(text)
    assert bench.look() == []
    meminfo.write_text("?")
    assert bench.look() == ["cannot look at the machine"]


def test_a_bug_does_not_end_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_event: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr(bench.engine, "handle", fail)
    bench.write(*nodes(8 * GI, 4 * GI))
    (record,) = bench.after(LOOK_S)
    assert (record.event, record.level) == ("internal error while looking at the machine", "error")
    assert "RuntimeError: oops" in str(record.fields["exception"])
    assert bench.look() == []


# Pages that others took


def test_a_difference_that_lasts_is_told_when_it_comes_changes_and_goes(bench: Bench) -> None:
    bench.in_use(1, 8)
    assert bench.look() == []
    (record,) = bench.after(LOOK_S)
    assert record == Record(
        "hugepages taken outside of pods", fields={"taken_outside": {"1": {PAGES: 8 * PAGE}}}
    )
    assert bench.look() == []
    bench.in_use(1, 9)
    assert [bench.look() for _ in range(3)] == [[], ["hugepages taken outside of pods"], []]
    bench.in_use(1, 0)
    assert [bench.look() for _ in range(3)] == [
        [],
        ["hugepages no longer taken outside of pods"],
        [],
    ]


def test_a_difference_that_never_stands_still_is_told_once_a_minute(bench: Bench) -> None:
    told = []
    for pages in range(1, 14):
        bench.in_use(0, pages)
        told.append(len(bench.look()))
    every = round(RETELL_S / LOOK_S)
    assert [look for look, count in enumerate(told, 1) if count] == [every, 2 * every]


# What a placement needs


def pod_with(pages: int = 4, parent: str = "/kubepods/podu1") -> PodSandbox:
    limits = {PAGE: pages * PAGE} if pages else {}
    return PodSandbox("s", "u1", "ns", "db", parent, None, limits)


def test_the_figures_are_read_for_who_asks_for_hugepages(bench: Bench) -> None:
    bench.in_use(1, 8)
    bench.promised(3)
    asks = [
        (pod_with(), Container("c", "s", "x", GI)),
        (pod_with(0), Container("c", "s", "x", GI, {PAGE: PAGE})),
        (pod_with(0), Container("c", "s", "x", GI, None, {PAGE: PAGE})),
    ]
    for pod, container in asks:
        use = bench.watch.pool_use(bench.engine, pod, container)
        assert use is not None
        assert use.pools[1] == {PAGES: Pool(8 * PAGE, 56 * PAGE)}
        assert use.promised == {PAGES: 3 * PAGE}


def test_the_pods_that_hold_pages_are_asked_how_many_they_use(bench: Bench) -> None:
    (bench.root / "cgroup").mkdir()
    (bench.root / "cgroup/cgroup.controllers").touch()
    for number in (1, 2, 3):
        parent = f"/kubepods/podu{number}"
        pod = PodSandbox(f"s{number}", f"u{number}", "ns", "db", parent)
        limits = {PAGE: 4 * PAGE} if number < 3 else None
        container = Container(f"c{number}", pod.sandbox_id, "x", GI, limits)
        assert bench.engine.handle(CreateContainer(pod, container)).refusal is None
        directory = bench.root / f"cgroup{parent}"
        directory.mkdir(parents=True)
        if number != 2:
            (directory / "hugetlb.2MB.numa_stat").write_text(f"total={PAGE} N0={PAGE} N1=0\n")
    asking = Container("c", "s", "x", GI, {PAGE: PAGE})
    use = bench.watch.pool_use(bench.engine, pod_with(0), asking)
    assert use is not None
    assert use.by_pods == {"u1": {0: {PAGES: PAGE}}}
    bench.watch.show(bench.engine)
    assert bench.told[-1].fields["used_by_pods"] == {"0": {PAGES: PAGE}}


def test_nobody_reads_them_for_the_others(bench: Bench) -> None:
    asking = Container("c", "s", "x", GI, {PAGE: PAGE})
    placed = replace(asking, cpuset_mems="0")
    for pod, container in [
        (pod_with(0), Container("c", "s", "x", GI)),
        (pod_with(0), Container("c", "s", "x", GI, {PAGE: 0, GI: 0})),
        (pod_with(parent="/kubepods/burstable/podu1"), asking),
        (pod_with(), placed),
        (pod_with(), None),
    ]:
        assert bench.watch.pool_use(bench.engine, pod, container) is None
    assert bench.watch.pool_use(None, pod_with(), asking) is None


def test_in_pod_scope_the_pod_asks(bench: Bench) -> None:
    settings = replace(RESERVED, topology_manager_scope="pod")
    engine = Engine(Context.of(bench.engine.context.machine, settings))
    use = bench.watch.pool_use(engine, pod_with(), None)
    assert use is not None
    assert list(use.pools) == [0, 1]
    assert bench.watch.pool_use(engine, pod_with(0), None) is None


def test_without_figures_the_books_alone_decide(bench: Bench) -> None:
    pool = "sys/devices/system/node/node1/hugepages/hugepages-2048kB"
    (bench.root / pool / "free_hugepages").write_text("many\n")
    for count in (1, 0):
        bench.told.clear()
        container = Container("c", "s", "x", GI)
        assert bench.watch.pool_use(bench.engine, pod_with(), container) is None
        events = [record.event for record in bench.told]
        assert events == ["cannot read the hugepage pools, the books alone decide"] * count
    bench.told.clear()
    bench.watch.show(bench.engine)
    assert [record.event for record in bench.told] == ["cannot look at the machine"]


def test_the_pools_are_shown_beside_the_books(bench: Bench) -> None:
    bench.in_use(0, 5)
    bench.watch.show(bench.engine)
    (record,) = bench.told
    assert record.event == "hugepage pools"
    assert record.fields["taken_outside"] == {"0": {PAGES: 5 * PAGE}}


# What the kernel tells


@pytest.fixture
def kernel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the kernel's end of the watch's uevents, as if this were the real /sys."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sysfs, proc = bench.root / "sys", bench.root / "proc"
    monkeypatch.setattr(machine_watch, "_SYSFS", sysfs)
    bench.watch = MachineWatch(
        sysfs, proc, bench.root / "cgroup", bench.told.append, listen=lambda: Uevents(ours)
    )
    bench.watch.begin(0.0)
    yield theirs
    bench.watch.close()
    theirs.close()


def test_a_look_follows_at_the_tick_after_a_burst(bench: Bench, kernel: socket.socket) -> None:
    bench.write(*nodes(8 * GI, 4 * GI))
    kernel.send(b"add@/devices/virtual/net/veth0\0ACTION=add\0")
    assert bench.after(1) == []
    for _ in range(5):
        kernel.send(ONLINE)
    assert [record.event for record in bench.after(1)] == ["machine changed"]
    bench.write(*nodes(4 * GI, 4 * GI))
    assert bench.after(LOOK_S - 1) == []
    assert [record.event for record in bench.after(1)] == ["machine changed"]


def test_the_library_is_loaded_for_a_log_at_debug_level_only(
    bench: Bench, kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = threading.Event()

    def describe(messages: tuple[bytes, ...]) -> list[str]:
        described.set()
        assert threading.current_thread() is not threading.main_thread()
        return [message.decode().partition("\0")[0] for message in messages]

    monkeypatch.setattr(machine_watch, "describe", describe)
    kernel.send(ONLINE)
    assert bench.after(1) == []
    assert not described.is_set()
    settings = replace(RESERVED, log_level="debug")
    bench.engine = Engine(Context.of(bench.engine.context.machine, settings))
    kernel.send(ONLINE)
    bench.after(1)
    assert described.wait(30)
    wait_for_threads()
    assert bench.told == [
        Record(
            "the kernel told of memory or nodes",
            "debug",
            {
                "some_were_lost": False,
                "uevents": ["online@/devices/system/memory/memory33"],
            },
        )
    ]


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "uevents":
            thread.join(30)


def test_a_library_that_is_missing_is_no_obstacle(
    bench: Bench, kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(RESERVED, log_level="debug")
    bench.engine = Engine(Context.of(bench.engine.context.machine, settings))
    monkeypatch.setitem(sys.modules, "pyroute2.netlink.uevent", None)
    kernel.send(ONLINE)
    bench.after(1)
    wait_for_threads()
    (record,) = bench.told
    assert "pyroute2" in str(record.fields["error"])


def test_where_nobody_may_listen_the_look_from_time_to_time_remains(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden() -> Uevents:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    sysfs, proc = bench.root / "sys", bench.root / "proc"
    monkeypatch.setattr(machine_watch, "_SYSFS", sysfs)
    bench.watch = MachineWatch(
        sysfs, proc, bench.root / "cgroup", bench.told.append, listen=forbidden
    )
    bench.watch.begin(0.0)
    assert bench.after(1) == [
        Record(
            "the kernel's uevents cannot be heard",
            fields={"error": "Operation not permitted", "looks_every_s": 10},
        )
    ]
    assert bench.after(1) == []
    bench.write(*nodes(8 * GI, 4 * GI))
    assert bench.look() == ["machine changed"]


def test_a_socket_that_breaks_is_given_up(bench: Bench, kernel: socket.socket) -> None:
    bench.after(1)
    assert bench.watch._uevents is not None
    bench.watch._uevents._sock.close()
    (record,) = bench.after(1)
    assert record.fields["error"] == "Bad file descriptor"
    assert bench.after(1) == []


def test_a_simulated_host_listens_to_nobody(tmp_path: Path) -> None:
    assert MachineWatch(tmp_path, tmp_path, tmp_path, print)._listen is None
    assert MachineWatch(Path("/sys"), Path("/proc"), tmp_path, print)._listen == Uevents.listen
