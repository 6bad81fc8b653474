"""The clock of a life: real time here, virtual time in tests/lives."""

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """How a life measures time and waits."""

    poll_s: float
    """The interval in which a life looks whether a condition is met."""

    def monotonic_s(self) -> float:
        """Return the seconds since an arbitrary moment."""

    pauses_s: tuple[float, ...]
    """How long a life may stop the plugin, whatever the runtime's timeout."""
    flaps_s: tuple[float, ...]
    """The time between two starts of a runtime that flaps."""

    def sleep(self, seconds: float) -> None:
        """Return after this time; the plugin runs meanwhile."""

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call after this time; return a function that waits until then."""


class RealClock:
    """The kernel's clock."""

    poll_s = 0.05
    pauses_s: tuple[float, ...] = (1.0, 3.0, 6.0)
    flaps_s: tuple[float, ...] = (0.05, 0.1, 0.4)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        timer = threading.Timer(seconds, call)
        timer.start()
        return timer.join
