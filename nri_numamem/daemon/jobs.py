"""Periodic jobs: the work of the daemon that no request waits for, one interface for all of it.

The event loop runs the due jobs at each tick, between two batches of requests. A job returns the
records to be logged. A job that fails because of a bug is logged and runs again when it is due; it
keeps no other job from running. Only the main thread runs jobs.

Python's garbage collector is a job too. Left to itself it runs when enough objects were allocated,
which is in the middle of a request that allocates many, and it visits all objects: 30 ms with the
accounting of 500 pods, and half of the time of a Synchronize of thousands of containers. Serving
creates reference cycles only where something fails, so waiting for a tick costs little memory.
"""

import gc
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self

from nri_numamem.daemon.signals import Deadline
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.process import JobFailed
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.files import traceback_of

# As for the state after a reply. The jobs take milliseconds with 500 pods; the observer acts later.
JOB_LIMIT_S = 2.0

# A job that exceeded the limit once may do so again, and the requests should get their share.
PAUSE_S = 60.0

# Objects made and not freed since the last collection, some 10 MB at most. A host with 500 pods
# comes near it once; an error with its traceback makes a hundred.
_MANY_OBJECTS = 100_000


class Job(Protocol):
    """Work that is done from time to time."""

    @property
    def name(self) -> str:
        """The name of the job in log records."""

    def due(self, now_s: float) -> bool:
        """Return whether the job is to run; `now_s` is monotonic."""

    def run(self, now_s: float) -> Iterable[Record]:
        """Do the work; return the records to be logged."""


class EngineJob(Protocol):
    """Work on the engine, which is not done before there is one."""

    @property
    def name(self) -> str:
        """The name of the job in log records."""

    def due(self, engine: Engine, now_s: float) -> bool:
        """Return whether the job is to run; `now_s` is monotonic."""

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        """Do the work; return the records to be logged."""


class PeriodicJob:
    """A function that is called at most every `interval_s` seconds, 0 for every tick."""

    def __init__(
        self, name: str, call: Callable[[float], Iterable[Record]], interval_s: float = 0.0
    ) -> None:
        self.name = name
        self._call = call
        self._interval_s = interval_s
        self._ran_at_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Return whether the interval is over, or the job never ran."""
        return self._ran_at_s is None or now_s - self._ran_at_s >= self._interval_s

    def run(self, now_s: float) -> Iterable[Record]:
        """Call the function."""
        self._ran_at_s = now_s
        return self._call(now_s)


class LimitedJob:
    """A job that works on the engine, with a limit of processor time: requests wait meanwhile.

    A run that exceeds the limit has failed, and the job pauses. What the engine committed before
    stays, and so do the records that the job emitted itself.
    """

    def __init__(
        self, job: EngineJob, time_limit: Deadline, get_engine: Callable[[], Engine | None]
    ) -> None:
        self.name = job.name
        self._job = job
        self._time_limit = time_limit
        self._get_engine = get_engine
        self._paused_until_s = -math.inf

    def due(self, now_s: float) -> bool:
        """Return whether the job is due, and not paused."""
        engine = self._get_engine()
        return engine is not None and now_s >= self._paused_until_s and self._job.due(engine, now_s)

    def run(self, now_s: float) -> Iterable[Record]:
        """Run the job; raise TimeoutError if it exceeds the limit."""
        engine = self._get_engine()
        if engine is None:
            return ()
        try:
            return self._time_limit.run_on_processor(
                JOB_LIMIT_S, lambda: list(self._job.run(engine, now_s))
            )
        except Overrun as overrun:
            engine.discard()
            self._paused_until_s = now_s + PAUSE_S
            text = f"the job took more than {JOB_LIMIT_S:g} s of processor time"
            raise TimeoutError(text) from overrun


class Jobs:
    """Runs jobs in order. `emit` logs a record."""

    def __init__(self, jobs: Sequence[Job], clock: Clock, emit: Callable[[Record], None]) -> None:
        self._jobs = list(jobs)
        self._clock = clock
        self._emit = emit
        self._failures: dict[str, str] = {}
        """Name of a job that failed in its last run -> traceback."""

    def add(self, job: Job) -> None:
        """Run this job as well, before the last one."""
        self._jobs.insert(-1, job)

    def run_due(self, *names: str) -> None:
        """Run the jobs that are due, or only those with these names; raises no Exception."""
        for job in self._jobs:
            if names and job.name not in names:
                continue
            now_s = self._clock.monotonic_s()
            try:
                if job.due(now_s):
                    for record in job.run(now_s):
                        self._emit(record)
                    self._failures.pop(job.name, None)
            except Exception as error:  # noqa: BLE001 - a bug must not end the process
                self._log_failure(job.name, error)

    def _log_failure(self, name: str, error: Exception) -> None:
        """Log a failure once, until the job succeeds or fails otherwise."""
        text = traceback_of(error)
        if self._failures.get(name) != text:
            self._failures[name] = text
            self._emit(JobFailed(job=name, exception=text))


class GcControl:
    """A context in which the collector runs as a periodic job only."""

    name = "garbage collection"

    def __init__(self) -> None:
        self._was_enabled = True

    def __enter__(self) -> Self:
        """Exclude all present objects; they stay as long as the process."""
        self._was_enabled = gc.isenabled()
        gc.disable()
        gc.freeze()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the collector."""
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    def due(self, _now_s: float) -> bool:
        """Return whether many objects were allocated since the last collection."""
        return gc.get_count()[0] >= _MANY_OBJECTS

    def run(self, _now_s: float) -> Iterable[Record]:
        """Collect."""
        gc.collect()
        return ()
