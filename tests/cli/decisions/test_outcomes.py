"""What an entry of the history decides."""

import pytest

from nri_numamem.cli.decisions.outcomes import (
    Outcome,
    Refusals,
    amounts_text,
    outcome_of,
    refusals_of,
    repeats,
    request_of,
)
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import GI, recorded

CREATED = {"qos_class": "Guaranteed", "container_id": "i", "sandbox_id": "s"}
NAMES = {"namespace": "ns", "pod": "p", "pod_uid": "u", "container": "c"}


def entry(time_s: float, event: str, **fields: object) -> Recorded:
    return recorded(time_s, event, "", {**NAMES, **fields})


@pytest.mark.parametrize(
    ("event", "fields", "outcome"),
    [
        ("admitted", {}, Outcome.PLACED),
        ("rejected", {}, Outcome.REFUSED),
        ("not_managed", {}, Outcome.NOT_MANAGED),
        ("running_unpinned_no_capacity", {}, Outcome.UNPINNED),
        ("unreported_container_found", {"outcome": "unpinned"}, Outcome.UNPINNED),
        ("unreported_container_found", {"outcome": "adopted"}, Outcome.PLACED),
        ("cpuset_mems_missing", {"outcome": "unpinned"}, Outcome.UNPINNED),
        ("cpuset_mems_missing", {"outcome": "repair_deferred"}, None),
        ("request_timed_out", CREATED, Outcome.UNPINNED),
        ("internal_error", {"qos_class": "Burstable"}, None),
        ("container_ended", {}, None),
    ],
)
def test_outcomes(event: str, fields: dict[str, object], outcome: Outcome | None) -> None:
    assert outcome_of(entry(1, event, **fields)) is outcome


def test_decisions_that_an_entry_stands_for() -> None:
    made = [entry(1, "admitted"), entry(2, "rejected"), entry(4, "rejected", repeat_count=5)]
    assert [repeats(each) for each in made] == [1, 1, 6]
    assert refusals_of(made, Outcome.REFUSED) == Refusals(7, 2, 4)
    assert refusals_of(made, Outcome.PLACED) is None
    assert refusals_of((), Outcome.REFUSED) is None


def test_requests() -> None:
    asked = {"memory": 8 * GI, "hugepages-1Gi": 0}
    assert request_of(entry(1, "rejected", request_bytes=asked)) == {"memory": 8 * GI}
    whole = entry(1, "rejected", request_bytes=asked, pod_request_bytes={"memory": 90 * GI})
    assert request_of(whole) == {"memory": 90 * GI}
    assert request_of(entry(1, "container_ended")) == {}
    assert amounts_text({"hugepages-1Gi": GI, "memory": 2 * GI}) == "2Gi memory, 1Gi hugepages-1Gi"
    assert amounts_text({"memory": 0}) == "nothing"
