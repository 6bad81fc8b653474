"""A virtual clock, and processes that run only while the world lets them.

The plugin runs as a coroutine: `VirtualProcess` passes control to it and takes control back when
the plugin waits. Time passes only when both wait, and then at once. Nothing depends on the real
clock or on a scheduler, so a seed replays a run exactly.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, TypeVar

import greenlet

_Result = TypeVar("_Result")

# The longest run of a process in a test; it ends a test whose process waits for ever.
_LONGEST_RUN_S = 86_400.0

# The moment at which every world begins, as seconds since 1970: 2026-01-01.
_BEGIN_WALL_S = 1_767_225_600.0


class Killed(BaseException):
    """The virtual process received SIGKILL; no handler of the plugin runs."""


class ReadySource(Protocol):
    """Something that a virtual process waits for."""

    @property
    def is_readable(self) -> bool:
        """Return whether reading would not block."""


class VirtualProcess:
    """A function that runs as a coroutine (a greenlet), whenever `resume` passes control to it."""

    def __init__(self, target: Callable[[], int]) -> None:
        self.status: int | None = None
        """The exit status; None while the process lives. -9 after a kill."""
        self.error: BaseException | None = None
        """The exception that ended the process."""
        self.wakes_at_s = 0.0
        """The virtual time at which the process goes on even without input."""
        self.sources: Sequence[ReadySource] = ()
        """Where input ends the wait."""
        self.frozen_until_s = 0.0
        """The process does not run before this virtual time (SIGSTOP)."""
        self._target = target
        self._world = greenlet.getcurrent()
        self._coroutine = greenlet.greenlet(self._run)

    @property
    def is_alive(self) -> bool:
        return self.status is None

    def resume(self) -> None:
        """Let the process run until it waits or ends."""
        self._coroutine.switch()

    def wait(self, until_s: float, sources: Sequence[ReadySource] = ()) -> None:
        """Pass control to the world until `until_s`, or until a source is readable."""
        self.wakes_at_s, self.sources = until_s, sources
        self._world.switch()

    def kill(self) -> None:
        """End the process at once, wherever it waits."""
        if not self.is_alive:
            return
        if self._coroutine:
            self._coroutine.throw(Killed)
        self.status = -9

    def runs_at_s(self) -> float:
        """Return the earliest virtual time at which the process runs next."""
        if any(source.is_readable for source in self.sources):
            return self.frozen_until_s
        return max(self.wakes_at_s, self.frozen_until_s)

    def _run(self) -> None:
        try:
            self.status = self._target()
        except Killed:
            self.status = -9
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.error, self.status = error, 1


class World:
    """The virtual time, what happens at which time, and the processes that live in it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.process: VirtualProcess | None = None
        """The process that runs, or ran last."""
        self.successor: VirtualProcess | None = None
        """A second process beside it."""
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Call `action` after this virtual time."""
        heapq.heappush(self._timers, (self.now_s + seconds, next(self._numbers), action))

    def advance(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass until `is_done()`; return False when `seconds` were over before."""
        end_s = self.now_s + seconds
        while not is_done():
            next_s = self._next_event_s()
            if next_s > end_s:
                self.now_s = max(self.now_s, end_s)
                return is_done()
            self.now_s = max(self.now_s, next_s)
            self._run_one()
        return True

    def run(self, target: Callable[[], _Result]) -> _Result:
        """Run `target` as the process until it returns; return its result or raise its error.

        AssertionError if it does not return within a day.
        """
        results: list[_Result] = []

        def main() -> int:
            results.append(target())
            return 0

        process = self.process = VirtualProcess(main)
        is_over = self.advance(_LONGEST_RUN_S, lambda: not process.is_alive)
        if process.error is not None:
            raise process.error
        assert is_over, "the process did not end within a day"
        self.process = None
        return results[0]

    def _next_event_s(self) -> float:
        times = [process.runs_at_s() for process in self._alive()]
        return min([*times, self._timers[0][0] if self._timers else float("inf")])

    def _alive(self) -> list[VirtualProcess]:
        both = (self.process, self.successor)
        return [process for process in both if process is not None and process.is_alive]

    def _run_one(self) -> None:
        """Run what is due first: a timer or a process."""
        if self._timers and self._timers[0][0] <= self.now_s:
            heapq.heappop(self._timers)[2]()
            return
        process = min(self._alive(), key=VirtualProcess.runs_at_s)
        before, self.process = self.process, process
        process.resume()
        self.process = before


class VirtualClock:
    """The world's time, for the plugin."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic_s(self) -> float:
        return self._world.now_s

    def wall_s(self) -> float:
        return _BEGIN_WALL_S + self._world.now_s

    def sleep(self, seconds: float) -> None:
        """Wait in the plugin's process."""
        process = self._world.process
        assert process is not None
        process.wait(self._world.now_s + seconds)
