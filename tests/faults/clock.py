"""The clock of a life: real time here, virtual time in tests/lives."""

import time
from typing import Protocol


class Clock(Protocol):
    """How a life measures time and waits."""

    poll_s: float
    """The interval in which a life looks whether a condition is met."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment."""

    def sleep(self, seconds: float) -> None:
        """Return after this time; the plugin runs meanwhile."""


class RealClock:
    """The kernel's clock."""

    poll_s = 0.05

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
