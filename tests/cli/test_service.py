"""What the service reads from the host for the decoder, and for whom it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.errors import UnsettledError
from nri_numamem.cli.service import HostRoots, Service
from nri_numamem.engine import records
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Container, CreateContainer, PodSandbox, RunPodSandbox
from nri_numamem.engine.plan import Plan, Record
from nri_numamem.engine.settings import Settings
from nri_numamem.memorymanager import Machine, NodeSet, NumaNode
from nri_numamem.nri.decode import Device
from nri_numamem.nri.methods import Overrun
from nri_numamem.observe import logs

GUARANTEED = "/kubepods/pod1"
DEVICES = [Device("c", 226, 128, "/dev/dri/renderD128"), Device("c", 1, 3, "/dev/null")]


def service(root: Path, settings: Settings | None) -> Service:
    gpu = root / "sys/devices/pci0000:17/0000:18:00.0"
    (gpu / "drm/renderD128").mkdir(parents=True)
    (gpu / "numa_node").write_text("1\n")
    (root / "sys/dev/char").mkdir(parents=True)
    target = "../../devices/pci0000:17/0000:18:00.0/drm/renderD128"
    (root / "sys/dev/char/226:128").symlink_to(target)
    made = Service(logs.get_logger(), HostRoots(root / "sys", root / "proc", root / "cgroup"))
    if settings is not None:
        nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
        made.engine = Engine(Context.of(Machine(nodes), settings))
    return made


def test_devices_with_a_known_node_are_told(tmp_path: Path) -> None:
    made = service(tmp_path, Settings())
    assert made._device_nodes(GUARANTEED, DEVICES) == (NodeSet([1]),)


def unread() -> Iterator[Device]:
    """Fails when somebody looks at the devices."""
    yield from ()
    raise AssertionError("somebody looked")


def test_devices_that_cannot_matter_are_not_looked_at(tmp_path: Path) -> None:
    without_engine = service(tmp_path / "a", None)
    assert without_engine._device_nodes(GUARANTEED, unread()) == ()
    managed = service(tmp_path / "b", Settings())
    assert managed._device_nodes("/kubepods/burstable/pod1", unread()) == ()
    merges_nothing = service(tmp_path / "c", Settings(topology_manager_policy="none"))
    assert merges_nothing._device_nodes(GUARANTEED, unread()) == ()
    with pytest.raises(AssertionError):
        managed._device_nodes(GUARANTEED, unread())


@pytest.mark.timeout(60, method="thread")  # the default uses the signal of the deadline
def test_what_is_too_late_has_not_happened(tmp_path: Path) -> None:
    made = service(tmp_path, Settings())
    engine = made.engine
    assert engine is not None
    before = engine.state

    def late() -> bytes:
        pod = PodSandbox("s1", "u1", "default", "db", GUARANTEED)
        made.handle(RunPodSandbox(pod))
        made.handle(CreateContainer(pod, Container("c1", "s1", "c", 1 << 20)))
        made.engine = None
        raise Overrun

    with made._deadline, pytest.raises(Overrun):
        made.limit(60, late)
    assert made.engine is engine
    assert engine.state is before
    made.engine = None
    with made._deadline, pytest.raises(Overrun):
        made.limit(60, late)


@pytest.mark.timeout(60, method="thread")
def test_room_that_was_made_for_a_late_answer_is_made_again(tmp_path: Path) -> None:
    made = service(tmp_path, Settings())
    assert made.engine is not None
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup/cgroup.controllers").touch()
    directory = tmp_path / "cgroup/kubepods/podgone"
    directory.mkdir(parents=True)
    old = PodSandbox("s1", "gone", "default", "old", "/kubepods/podgone")
    new = PodSandbox("s2", "comes", "default", "new", "/kubepods/podcomes")
    limit_bytes = 3 << 29  # of 2 GiB
    first = CreateContainer(old, Container("c1", "s1", "c", limit_bytes))
    second = CreateContainer(new, Container("c2", "s2", "c", limit_bytes))
    made.handle(RunPodSandbox(old))
    assert made.handle(first).refusal is None
    made.sweep()
    directory.rmdir()

    def late() -> bytes:
        assert made.handle(second).refusal is None
        raise Overrun

    with made._deadline, pytest.raises(Overrun):
        made.limit(60, late)
    assert list(made.engine.state.books.assignments) == ["gone"]
    plan = made.handle(second)
    assert plan.refusal is None
    released = plan.records[0]
    assert released.fields["pod"] == "old"
    assert released.fields["noticed_by"] == "its cgroup is gone"
    assert list(made.engine.state.books.assignments) == ["comes"]


def fail(*_about: object) -> Record:
    raise RuntimeError("what a bug")


@pytest.mark.timeout(60, method="thread")
def test_books_that_lack_a_container_decide_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = service(tmp_path, Settings())
    engine = made.engine
    assert engine is not None
    pod = PodSandbox("s1", "u1", "default", "db", GUARANTEED)
    plans: list[Plan] = []

    def answer(name: str) -> bytes:
        container = Container(name, "s1", name, 1 << 20)
        plans.append(made.handle(CreateContainer(pod, container)))
        return b""

    monkeypatch.setattr(records, "admitted", fail)
    with made._deadline:
        made.limit(60, lambda: answer("first"))
        made.limit(60, lambda: answer("second"))  # as from the same read
    assert [plan.adjustment is None for plan in plans] == [False, True]
    assert engine.state.books.assignments == {}
    with pytest.raises(UnsettledError):
        made.after_replies()


@pytest.mark.timeout(60, method="thread")
def test_what_follows_from_a_reply_is_not_the_next_requests_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = service(tmp_path, Settings())
    engine = made.engine
    assert engine is not None
    is_open: list[bool] = []
    settle = engine.settle

    def watched() -> None:
        is_open.append(made._deadline._is_open)
        settle()

    monkeypatch.setattr(engine, "settle", watched)
    pod = PodSandbox("s1", "u1", "default", "db", GUARANTEED)
    container = Container("c1", "s1", "main", 1 << 20)

    def answer() -> bytes:
        assert made.handle(CreateContainer(pod, container)).adjustment is not None
        return b""

    with made._deadline:
        made.limit(60, answer)
        waiting = engine.settled_state
        made.limit(60, lambda: b"")
    assert waiting.books.assignments == {}
    assert engine.settled_state.books.assignments.keys() == {"u1"}
    assert is_open[0] is False


def test_a_slow_tick_does_not_shorten_the_watchdogs_patience_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = service(tmp_path, Settings())
    order: list[str] = []
    monkeypatch.setattr(made._watchdog, "feed", lambda: order.append("fed"))
    monkeypatch.setattr(made._machine, "tick", lambda *_: order.append("looked"))
    made.tick()
    assert order == ["fed", "looked", "fed"]
