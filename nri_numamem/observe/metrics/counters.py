"""Counters of records and requests, and the other sources of the metrics and of /healthz.

The event loop counts each record that it logs and each request that it serves, which takes less
than a microsecond per request and needs no library. Other threads only read, one number or one copy
at a time, so figures of one scrape may be of different moments. ``observe.metrics.exposition``
defines the names of the metrics.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nri_numamem.engine.engine import Committed
from nri_numamem.engine.records import connection, containers, machine, pods
from nri_numamem.engine.records.record import Amounts, Record
from nri_numamem.memorymanager.rejection import TOPOLOGY, UNEXPECTED

if TYPE_CHECKING:
    from nri_numamem.engine.features.residency.remote_memory import Round

_Request = TypeVar("_Request")
_Deadline = TypeVar("_Deadline")
_Result = TypeVar("_Result")

# From the fastest request to the default timeout of runtimes.
BUCKETS_S = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0, 2.0),
)

# More than the containers of a large host that are refused at one time; some 300 bytes each.
REJECTED_LIMIT = 1024


class Durations:
    """A histogram of durations with the buckets BUCKETS_S."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        """Number of durations per bucket; the last item counts those above all buckets."""
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BUCKETS_S, duration_s)] += 1
        self.sum_s += duration_s


class Meter:
    """What happened since the start of the process. Only one thread may write."""

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        self._wall_s = wall_s
        self.events = Counter[str]()
        """Event -> number of records."""
        self.reasons = {TOPOLOGY: 0, UNEXPECTED: 0}
        """The kubelet's reason -> number of rejected requests of containers."""
        self.first_rejections = dict(self.reasons)
        """The kubelet's reason -> number of containers, without retries of a container."""
        self._rejected: dict[tuple[str, str, str], None] = {}
        """Pod uid, container name and reason of the last REJECTED_LIMIT rejected containers."""
        self.misaligned = Counter[tuple[str, str]]()
        """Provider and cause -> number of containers that became misaligned."""
        self.strategies = Counter[str]()
        """Placement strategy -> placements in which it decided between equal node sets."""
        self.cgroup_released_pods = 0
        """Pods released because their cgroup disappeared."""
        self.durations: dict[str, Durations] = {}
        """Method of the plugin's service -> durations of its requests."""
        self.runtime: connection.RuntimeNames | None = None
        """The runtime of the last event `configured`."""
        self.synchronized: connection.Synchronized | None = None
        """The last event `synchronized`."""
        self.synchronized_at_s: float | None = None
        """Time of that event, in seconds since 1970."""
        self.non_pod_hugepages: Mapping[str, Amounts] | None = None
        """NUMA nodes -> resource -> bytes in use by processes outside of pods; None without any."""
        self.starts: Mapping[str, int] = {}
        """Cause -> starts of the plugin, of earlier processes with the same supervisor as well."""
        self.ticked_at_s: float | None = None
        """When the event loop last ran its timer, in monotonic seconds; None before its first."""
        self.registrations = 0
        self.is_registered = False

    def count(self, record: Record) -> None:
        """Count a record."""
        self.events[record.event] += 1
        placed = record.found if isinstance(record, containers.UnreportedContainerFound) else record
        match placed:
            case containers.Unplaced():
                # The first container of a rejected pod is counted, not the pod.
                self._count_rejection(placed)
            case containers.Placed() | pods.PodAdmitted() if placed.equal_nodes:
                self.strategies[placed.strategy] += 1
            case pods.PodReleased() if placed.detected_by:
                self.cgroup_released_pods += 1
            case containers.Misaligned():
                self.misaligned.update(placed.causes.items())
            case connection.Configured():
                self.runtime = placed.runtime
            case connection.Synchronized():
                self.synchronized, self.synchronized_at_s = placed, self._wall_s()
            case machine.NonPodHugepagesFound():
                self.non_pod_hugepages = placed.outside.non_pod_bytes
            case machine.NonPodHugepagesCleared():
                self.non_pod_hugepages = None
            case _:
                pass

    def _count_rejection(self, record: containers.Unplaced) -> None:
        reason = record.reason
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        key = (record.names.pod_uid, record.names.container, reason)
        if key in self._rejected:
            return
        self.first_rejections[reason] = self.first_rejections.get(reason, 0) + 1
        self._rejected[key] = None
        if len(self._rejected) > REJECTED_LIMIT:
            del self._rejected[next(iter(self._rejected))]

    def ticked(self, now_s: float) -> None:
        """Note that the event loop ran its timer."""
        self.ticked_at_s = now_s

    def registered(self) -> None:
        """Count a successful registration."""
        self.registrations += 1
        self.is_registered = True

    def disconnected(self) -> None:
        """Note the end of the connection, and of its event loop."""
        self.is_registered = False
        self.ticked_at_s = None

    def timed(
        self, method: str, call: Callable[[_Request, _Deadline], _Result]
    ) -> Callable[[_Request, _Deadline], _Result]:
        """Return a function that calls `call` and counts the duration."""
        add = self.durations.setdefault(method, Durations()).add
        clock = time.perf_counter

        def timed_call(request: _Request, deadline: _Deadline) -> _Result:
            began_s = clock()
            try:
                return call(request, deadline)
            finally:
                add(clock() - began_s)

        return timed_call


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the figures. Any thread may call the functions."""

    meter: Meter
    committed: Callable[[], Committed | None]
    """Return the engine's context and state; None without an engine."""
    failed_writes: Callable[[], int]
    """Return how many writes of the state file failed."""
    written_at_s: Callable[[], float | None]
    """Return when the state file was written, in seconds since 1970; None if it was not."""
    remote_bytes: Callable[[], Mapping[int, int]]
    """Return NUMA node -> bytes of pages there of containers that are pinned to other nodes."""
    monotonic_s: Callable[[], float]
    standby: Callable[[], str] = str
    """Return why this instance waits and does not serve the runtime; "" if it serves."""
    residency: Callable[[], Round | None] = lambda: None
    """Return what the last round over the containers' pages found; None without the setting."""


# The event loop shows every 2 s that it is alive; a process beside it ends it after some 12 s.
SILENT_S = 10.0


def health(sources: Sources) -> tuple[bool, str]:
    """Return whether this instance does its work, and a text: the problems, or "ok".

    A standby does its work while it waits: the instance that holds the lock serves the runtime.
    """
    meter, cause = sources.meter, sources.standby()
    found: list[str] = []
    if not cause:
        if sources.committed() is None:
            found.append("the configuration cannot be used; see the log")
        if not meter.is_registered:
            found.append("the plugin is not registered with the runtime")
    if (cause or meter.is_registered) and meter.ticked_at_s is not None:
        silent_s = sources.monotonic_s() - meter.ticked_at_s
        if silent_s > SILENT_S:
            found.append(f"the event loop has been busy or stuck for {silent_s:.0f} s")
    return not found, "\n".join(found) or (f"standby: {cause}" if cause else "ok")
