"""Warnings about annotations are logged once per pod."""

import pytest

from nri_numamem.daemon.pod_warnings import ONCE_PER_POD, WARNINGS_LIMIT, PodWarnings
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.record import Level
from tests.engine.records.examples import example

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
