"""The pauses after failed requests, and which failures are recorded.

After a failure the pauses double from 1 s to a minute. Failures that only an administrator can
correct are tried again each minute. A failure is recorded until its kind changes or a request
succeeds.
"""

from collections.abc import Callable

from nri_numamem.export.requests import Failure, FailureKind

PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 60.0
PAUSE_JITTER = 0.2
"""Pauses are up to this much longer."""

# An administrator has to act. FORBIDDEN can also end soon: an API server that has just started
# answers so until it has read its roles.
_STEADY = {
    FailureKind.NO_CRD,
    FailureKind.NO_API,
    FailureKind.DROPPED,
    FailureKind.CONFLICT,
    FailureKind.REJECTED,
}


class Failures:
    """The failures since the last success; `random` returns a number from 0 up to 1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.last: Failure | None = None
        self.attempts = 0

    @property
    def problem(self) -> str:
        """Why the last attempt failed; "" if it succeeded, or there was none."""
        return "" if self.last is None else self.last.cause

    def add(self, failure: Failure) -> bool:
        """Add a failure; return whether it is another one than the last."""
        before, self.last = self.last, failure
        self.attempts += 1
        return before is None or _condition(before) != _condition(failure)

    def pause_s(self) -> float:
        """Return the least time before the next attempt; there was a failure."""
        assert self.last is not None  # noqa: S101 - see above
        pause_s = PAUSE_MAX_S
        if self.last.kind not in _STEADY:
            # The exponent is bounded: a host can be without an API server for months.
            pause_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(self.attempts - 1, 10))
        pause_s *= 1.0 + PAUSE_JITTER * self._random()
        return max(pause_s, min(self.last.retry_after_s, PAUSE_MAX_S))

    def end(self) -> None:
        """Forget the failures after a success."""
        self.last, self.attempts = None, 0


def _condition(failure: Failure) -> tuple[object, ...]:
    return failure.kind, failure.status, failure.field_managers
