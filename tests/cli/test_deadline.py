"""The timer that ends a computation, in this process."""

import gc
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from nri_numamem.cli.deadline import Deadline
from nri_numamem.nri.methods import Overrun

# pytest-timeout's default uses the very signal that is tested here.
pytestmark = pytest.mark.timeout(60, method="thread")


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Keep the collector off, as while serving: an Overrun in one of its callbacks is lost."""
    gc.disable()
    yield
    gc.enable()


def test_what_is_in_time_is_returned_and_leaves_no_timer() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: b"reply") == b"reply"
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_what_takes_too_long_is_ended() -> None:
    with Deadline() as deadline:
        with pytest.raises(Overrun):
            deadline.run(0.02, lambda: time.sleep(60))
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert deadline.run(60, lambda: 1) == 1


def test_a_time_that_is_over_is_no_error_of_the_timer() -> None:
    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run(-0.5, lambda: time.sleep(60))


def test_an_overrun_that_is_swallowed_comes_again() -> None:
    def stubborn() -> None:
        for _ in range(2):
            try:
                time.sleep(60)
            except Overrun:
                continue
        time.sleep(60)

    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run(0.02, stubborn)


def test_a_signal_at_every_step_of_the_end_leaves_no_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The overrun is raised once, and nothing after it: outside it would end the process."""
    monkeypatch.setattr("nri_numamem.cli.deadline._AGAIN_S", 1e-5)

    def spin() -> None:
        while True:
            pass

    with Deadline() as deadline:
        for _ in range(500):
            with pytest.raises(Overrun):
                deadline.run(1e-4, spin)
            assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_other_errors_pass_and_leave_no_timer() -> None:
    def broken() -> None:
        raise ValueError("a bug")

    with Deadline() as deadline:
        with pytest.raises(ValueError, match="a bug"):
            deadline.run(60, broken)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_signal_that_comes_late_disturbs_nobody() -> None:
    with Deadline():
        signal.raise_signal(signal.SIGALRM)


def test_the_signal_is_given_back() -> None:
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGALRM)
    with Deadline():
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getsignal(signal.SIGALRM) == before
