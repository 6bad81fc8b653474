"""Pauses after failures, and which of them are recorded."""

import pytest

from nri_numamem.export.failures import PAUSE_JITTER, PAUSE_MAX_S, Failures
from nri_numamem.export.requests import Failure, FailureKind


def failure(kind: FailureKind, status: int = 0, after_s: float = 0.0) -> Failure:
    return Failure(kind, f"cause of {kind}", "remedy", status, retry_after_s=after_s)


def test_the_pauses_double_up_to_a_minute() -> None:
    failures = Failures(lambda: 0.0)
    pauses = []
    for _ in range(8):
        failures.add(failure(FailureKind.UNREACHABLE))
        pauses.append(failures.pause_s())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert failures.attempts == 8


@pytest.mark.parametrize("kind", ["no_crd", "no_api", "dropped", "conflict", "rejected"])
def test_a_failure_for_an_administrator_is_tried_again_each_minute(kind: str) -> None:
    failures = Failures(lambda: 0.0)
    failures.add(failure(FailureKind(kind)))
    assert failures.pause_s() == PAUSE_MAX_S


def test_hosts_do_not_try_again_together() -> None:
    failures = Failures(lambda: 0.5)
    failures.add(failure(FailureKind.REJECTED))
    assert failures.pause_s() == PAUSE_MAX_S * (1 + PAUSE_JITTER / 2)


@pytest.mark.parametrize(("after_s", "pause_s"), [(5.0, 5.0), (0.5, 1.0), (9999.0, PAUSE_MAX_S)])
def test_the_server_may_ask_for_a_longer_pause(after_s: float, pause_s: float) -> None:
    failures = Failures(lambda: 0.0)
    failures.add(failure(FailureKind.SERVER_ERROR, 503, after_s))
    assert failures.pause_s() == pause_s


def test_a_failure_is_new_until_it_repeats() -> None:
    failures = Failures(lambda: 0.0)
    assert failures.problem == ""
    assert failures.add(failure(FailureKind.SERVER_ERROR, 500))
    assert not failures.add(failure(FailureKind.SERVER_ERROR, 500))
    assert failures.add(failure(FailureKind.SERVER_ERROR, 503))
    assert failures.problem == "cause of server_error"
    failures.end()
    assert (failures.problem, failures.attempts) == ("", 0)
    assert failures.add(failure(FailureKind.SERVER_ERROR, 503))
