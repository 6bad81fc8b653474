"""The path of records: what is counted, kept and logged."""

from dataclasses import dataclass, field

import pytest

from nri_numamem.daemon.record_path import (
    ONCE_PER_POD,
    WARNINGS_LIMIT,
    HistoryFilter,
    PodWarnings,
    RecordPath,
)
from nri_numamem.daemon.refusals import LIMIT, Refusals
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Level, Record
from nri_numamem.numa import Machine, NumaNode
from tests.engine.records.examples import example
from tests.virtual.log import MemoryLog
from tests.virtual.system import Machinery
from tests.virtual.world import World

GI = 1 << 30


class Path:
    """A path, its log, and the records that the history got."""

    def __init__(self) -> None:
        self.world = World()
        self.log = MemoryLog()
        self.kept: list[Record] = []
        clock = Machinery(self.world).system().clock
        self.records = RecordPath(self.log, clock, lambda: None, self._append)

    def _append(self, _time_s: float, record: Record) -> None:
        self.kept.append(record)


def test_a_repeated_refusal_is_counted_and_logged_once() -> None:
    path = Path()
    fields: dict[str, RecordValue] = {
        "pod_uid": "u",
        "container": "c",
        "request_bytes": {"memory": GI},
    }
    for _ in range(34):
        path.records.emit(example("resize_rejected", fields))
        path.world.now_s += 1.2
    assert len(path.log.named("resize_rejected")) == 1
    # After 10 s, and after 20 s more.
    assert [fields_of(record).get("repeat_count") for record in path.kept] == [None, 8, 16]
    assert path.records.meter.events["resize_rejected"] == 34


def test_a_warning_about_an_annotation_is_logged_once_per_pod() -> None:
    path = Path()
    record = example("memory_policy_ignored", {"pod_uid": "u", "cause": "it is old"})
    path.records.emit(record)
    path.records.emit(record)
    assert path.kept == [record, record]
    logged = path.log.named("memory_policy_ignored")
    assert (len(logged), len(path.log.warnings)) == (2, 1)


def test_a_line_has_the_id_of_its_request() -> None:
    path = Path()
    path.records.emit(example("log_reopened", request_id="1-2"))
    path.records.emit(example("log_reopened"))
    assert [line.get("request_id") for line in path.log.named("log_reopened")] == ["1-2", None]


@dataclass
class Clock:
    now_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s + 1_000_000

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Chosen:
    """A filter, and what it chose."""

    clock: Clock = field(default_factory=Clock)
    entries: list[tuple[float, Record]] = field(default_factory=list)
    engine: Engine | None = None

    def __post_init__(self) -> None:
        def append(time_s: float, record: Record) -> None:
            self.entries.append((time_s, record))

        self.filter = HistoryFilter(append, self.clock, lambda: self.engine, Refusals(self.clock))

    def add(self, event: str, **fields: RecordValue) -> int:
        """Add a record of a container; return how many were chosen."""
        names: dict[str, RecordValue] = {"pod_uid": "u", "container": "app", "container_id": "c"}
        return self.add_plain(event, **{**names, **fields})

    def add_plain(self, event: str, **fields: RecordValue) -> int:
        """Add a record."""
        before = len(self.entries)
        self.filter.add(example(event, fields))
        return len(self.entries) - before


@pytest.fixture
def chosen() -> Chosen:
    return Chosen()


def test_decisions_and_the_life_of_the_plugin(chosen: Chosen) -> None:
    events = ["admitted", "pod_released", "synchronized", "stopped"]
    assert [chosen.add_plain(event) for event in events] == [1, 1, 1, 1]
    assert chosen.entries[0] == (1_001_000.0, chosen.entries[0][1])
    others = ["state_dump", "uevents_received", "log_reopened"]
    assert [chosen.add_plain(event) for event in others] == [0, 0, 0]
    assert chosen.add("container_ended") == 1


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"qos_class": "Guaranteed"}, 1),
        ({"qos_class": "Burstable", "memory_limit_bytes": 1}, 1),
        ({"qos_class": "Burstable", "memory_limit_bytes": None, "pod_memory_limit_bytes": 1}, 1),
        ({"qos_class": "Burstable", "memory_limit_bytes": None}, 0),
        ({"qos_class": "BestEffort"}, 0),
    ],
)
def test_unmanaged_containers_with_a_memory_limit(
    chosen: Chosen, fields: dict[str, RecordValue], count: int
) -> None:
    assert chosen.add("not_managed", cause="its pod is Burstable", **fields) == count


def test_refusals_that_repeat_the_last_one_are_kept_after_growing_intervals(
    chosen: Chosen,
) -> None:
    def refuse(after_s: float) -> int:
        chosen.clock.now_s += after_s
        return chosen.add("rejected", message="nothing fits")

    assert [refuse(s) for s in (0, 4, 4, 3, 10, 9, 1)] == [1, 0, 0, 1, 0, 0, 1]
    counts = [fields_of(record).get("repeat_count") for _, record in chosen.entries]
    assert counts == [None, 2, 2]
    assert chosen.add("rejected", message="another") == 1
    assert chosen.add("rejected", message="nothing fits") == 1


def test_a_refusal_after_a_success_is_new(chosen: Chosen) -> None:
    assert chosen.add("rejected", message="nothing fits") == 1
    assert chosen.add("admitted") == 1
    assert chosen.add("rejected", message="nothing fits") == 1
    assert chosen.add("container_ended") == 1
    assert chosen.add("rejected", message="nothing fits") == 0


def test_a_resize_of_another_amount_is_new(chosen: Chosen) -> None:
    def refuse(size: int) -> int:
        return chosen.add("resize_rejected", request_bytes={"memory": size})

    assert [refuse(1), refuse(1), refuse(2)] == [1, 0, 1]


def test_the_memory_for_refusals_is_bounded(chosen: Chosen) -> None:
    for number in range(LIMIT + 10):
        chosen.add("rejected", pod_uid=f"u{number}", message="m")
    assert len(chosen.filter._refusals._history._shown) == LIMIT


@pytest.mark.parametrize(("age_s", "count"), [(1, 1), (100, 0), (None, 1)])
def test_a_container_that_is_adopted_again_is_left_out(
    chosen: Chosen, age_s: int | None, count: int
) -> None:
    engine = Engine(Context.of(Machine((NumaNode(0, 1 << 33),)), Policy()))
    if age_s is not None:
        since_s = int(chosen.clock.wall_s()) - age_s
        reason = Reason("c", "s", ("u", "app"), "ns", "p", "admitted", since_s)
        state = engine.state.with_reasons(Reasons({"c": reason}))
        engine = Engine.with_state(engine.context, state)
    chosen.engine = engine
    assert chosen.add("adopted") == count


def test_without_an_engine_an_adopted_container_is_new(chosen: Chosen) -> None:
    assert chosen.add("adopted") == 1


def test_memory_policies_are_chosen_and_refused_ones_only_at_intervals(chosen: Chosen) -> None:
    rejected = "memory_policy_rejected"
    assert chosen.add("memory_policy_set", nodes="0") == 1
    assert chosen.add("memory_policy_ignored", cause="it is old") == 1
    assert chosen.add("network_hints_found", interfaces={"eth1": "2"}) == 1
    assert [chosen.add(rejected, cause="it is old") for _ in range(3)] == [1, 0, 0]
    assert chosen.add(rejected, cause="another") == 1


IGNORED = "memory_policy_ignored"


def level(warnings: PodWarnings, event: str, uid: str = "a", **fields: RecordValue) -> Level:
    return warnings.filtered(example(event, {"pod_uid": uid, **fields})).level


@pytest.mark.parametrize("event", sorted(kind.event for kind in ONCE_PER_POD))
def test_only_the_first_warning_of_a_pod_is_one(event: str) -> None:
    warnings = PodWarnings()
    assert level(warnings, event, cause="x") is Level.WARNING
    assert level(warnings, event, cause="x") is Level.DEBUG
    assert level(warnings, event, cause="of another container") is Level.DEBUG
    assert level(warnings, event, uid="b") is Level.WARNING


def test_each_event_has_its_own_first_warning() -> None:
    warnings = PodWarnings()
    assert {level(warnings, kind.event) for kind in ONCE_PER_POD} == {Level.WARNING}


def test_other_records_pass() -> None:
    warnings, record = PodWarnings(), example("misaligned", {"pod_uid": "a"})
    assert [warnings.filtered(record) for _ in range(3)] == [record] * 3
    off = example(IGNORED, {"pod_uid": "a"}, alternate=True)
    assert warnings.filtered(off) == off
    # The setting is off for that annotation; the pod has had no warning.
    assert level(warnings, IGNORED) is Level.WARNING


def test_containers_without_room_pass() -> None:
    warnings = PodWarnings()
    for _ in range(3):
        found = level(warnings, "burstable_not_pinned", message="node 0 has 1Gi")
        assert found is Level.WARNING


def test_the_number_of_pods_is_limited() -> None:
    warnings = PodWarnings()
    for number in range(WARNINGS_LIMIT + 1):
        assert level(warnings, IGNORED, str(number)) is Level.WARNING
    assert level(warnings, IGNORED, "1") is Level.DEBUG
    assert level(warnings, IGNORED, "0") is Level.WARNING
    assert level(warnings, IGNORED, "1") is Level.DEBUG
