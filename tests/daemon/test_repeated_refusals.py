"""Which refusals of a resize are logged."""

from itertools import pairwise

from nri_numamem.daemon.repeated_refusals import (
    FIRST_INTERVAL_S,
    LAST_INTERVAL_S,
    REFUSALS_LIMIT,
    RepeatedRefusals,
)
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from tests.engine.records.examples import example


def refusal(container_id: str = "c", memory: int = 5) -> Record:
    fields: dict[str, RecordValue] = {
        "container_id": container_id,
        "request_bytes": {"memory": memory},
    }
    return example("resize_rejected", fields)


def times_logged(filtered: RepeatedRefusals, period_s: float, end_s: float) -> dict[float, object]:
    """Return time -> repeat_count of the records of a refusal that comes every `period_s`."""
    logged: dict[float, object] = {}
    for step in range(int(end_s / period_s)):
        record = filtered.filtered(refusal(), step * period_s)
        if record is not None:
            logged[step * period_s] = fields_of(record).get("repeat_count")
    return logged


def test_the_intervals_grow_and_repeats_are_counted() -> None:
    found = times_logged(RepeatedRefusals(), 1.0, 500.0)
    assert found == {0.0: None, 60.0: 59, 180.0: 119, 420.0: 239}


def test_the_interval_has_a_limit() -> None:
    times = list(times_logged(RepeatedRefusals(), 20.0, 40 * LAST_INTERVAL_S))
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[0] == FIRST_INTERVAL_S
    assert gaps == sorted(gaps)
    assert gaps[-1] == LAST_INTERVAL_S


def test_another_amount_or_container_is_another_refusal() -> None:
    filtered = RepeatedRefusals()
    for record in (refusal(), refusal(memory=6), refusal("d"), refusal(memory=5)):
        assert filtered.filtered(record, 0.0) == record
        assert filtered.filtered(record, 1.0) is None


def test_a_resize_that_succeeds_ends_a_row_of_refusals() -> None:
    filtered = RepeatedRefusals()
    done = example("resized", {"container_id": "c"})
    assert filtered.filtered(done, 0.0) is done
    assert filtered.filtered(refusal(), 0.0) is not None
    assert filtered.filtered(refusal(), 1.0) is None
    assert filtered.filtered(done, 2.0) is done
    assert filtered.filtered(refusal(), 3.0) == refusal()


def test_other_records_pass() -> None:
    filtered, record = RepeatedRefusals(), example("admitted", {"container_id": "c"})
    assert [filtered.filtered(record, 0.0) for _ in range(3)] == [record] * 3


def test_the_number_of_containers_is_limited() -> None:
    filtered = RepeatedRefusals()
    for number in range(REFUSALS_LIMIT + 1):
        assert filtered.filtered(refusal(str(number)), 0.0) is not None
    assert filtered.filtered(refusal("1"), 1.0) is None
    assert filtered.filtered(refusal("0"), 1.0) is not None
