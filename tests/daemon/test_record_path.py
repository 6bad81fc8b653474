"""The path of records: what is counted, kept and logged."""

from nri_numamem.daemon.record_path import RecordPath
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
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
