"""Counters of records and requests.

The event loop counts each record that it logs and each request that it serves, which takes less
than a microsecond per request and needs no library. Other threads only read, one number or one copy
at a time, so figures of one scrape may be of different moments. ``observe.metrics.exposition``
defines the names of the metrics.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TypeVar

from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager.rejection import TOPOLOGY, UNEXPECTED

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

CONFIGURED = EventName.CONFIGURED
SYNCHRONIZED = EventName.SYNCHRONIZED
NON_POD_HUGEPAGES = (EventName.NON_POD_HUGEPAGES_FOUND, EventName.NON_POD_HUGEPAGES_CLEARED)

COUNTED = (
    EventName.ADMITTED,
    EventName.ADOPTED,
    EventName.REJECTED,
    EventName.NOT_MANAGED,
    EventName.UNPINNED_NO_CAPACITY,
    EventName.PINNED_WHILE_RUNNING,
    EventName.RUNNING_UNPINNED_NO_CAPACITY,
    EventName.UNREPORTED_CONTAINER_FOUND,
    EventName.CPUSET_MEMS_CONFLICT,
    EventName.CPUSET_MEMS_REAPPLIED,
    EventName.POD_ADMITTED,
    EventName.POD_ADOPTED,
    EventName.POD_REJECTED,
    EventName.POD_RELEASED,
    EventName.RESIZED,
    EventName.RESIZE_REJECTED,
    EventName.BURSTABLE_PINNED,
    EventName.BURSTABLE_NOT_PINNED,
    EventName.BURSTABLE_UNPINNED,
    EventName.PLACEMENT_STRATEGY_IGNORED,
    EventName.MEMORY_POLICY_SET,
    EventName.MEMORY_POLICY_IGNORED,
    EventName.MEMORY_POLICY_REJECTED,
    EventName.NETWORK_HINTS_FOUND,
    EventName.NETWORK_HINTS_DISABLED,
    EventName.NETWORK_HINTS_INCOMPLETE,
    EventName.CPUS_SET,
    EventName.CPUS_NOT_SET,
    EventName.MACHINE_CHANGED,
    EventName.REQUEST_TIMED_OUT,
    EventName.SYNCHRONIZE_TIMED_OUT,
    EventName.COMMIT_TIMED_OUT,
    EventName.INTERNAL_ERROR,
    EventName.INTERNAL_ERROR_AFTER_REPLY,
    EventName.JOB_FAILED,
    EventName.ACCOUNTING_INVARIANT_VIOLATED,
    SYNCHRONIZED,
)
"""Events whose records are counted."""


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
        self.events = dict.fromkeys(COUNTED, 0)
        """Event -> number of records."""
        self.reasons = {TOPOLOGY: 0, UNEXPECTED: 0}
        """The kubelet's reason -> number of rejected requests of containers."""
        self.first_rejections = dict(self.reasons)
        """The kubelet's reason -> number of containers, without retries of a container."""
        self._rejected: dict[tuple[str, str, str], None] = {}
        """Pod uid, container name and reason of the last REJECTED_LIMIT rejected containers."""
        self.misaligned: dict[tuple[str, str], int] = {}
        """Provider and cause -> number of containers that became misaligned."""
        self.strategies: dict[str, int] = {}
        """Placement strategy -> placements in which it decided between equal node sets."""
        self.cgroup_released_pods = 0
        """Pods released because their cgroup disappeared."""
        self.durations: dict[str, Durations] = {}
        """Method of the plugin's service -> durations of its requests."""
        self.runtime: Mapping[str, RecordValue] = {}
        """Fields of the last event `configured`."""
        self.synchronized: Mapping[str, RecordValue] = {}
        """Fields of the last event `synchronized`."""
        self.synchronized_at_s: float | None = None
        """Time of that event, in seconds since 1970."""
        self.non_pod_hugepages: RecordValue = None
        """NUMA nodes -> resource -> bytes in use by processes outside of pods; None without any."""
        self.starts: Mapping[str, int] = {}
        """Cause -> starts of the plugin, of earlier processes with the same supervisor as well."""
        self.ticked_at_s: float | None = None
        """When the event loop last ran its timer, in monotonic seconds; None before its first."""
        self.registrations = 0
        self.is_registered = False

    def count(self, record: Record) -> None:
        """Count a record."""
        event, fields = record.event, record.fields
        if event not in self.events:
            if event == CONFIGURED:
                self.runtime = fields
            elif event == EventName.MISALIGNED:
                self._count_misaligned(fields.get("causes"))
            elif event in NON_POD_HUGEPAGES:
                self.non_pod_hugepages = fields.get("non_pod_bytes")
            return
        self.events[event] += 1
        if "reason" in fields and "container" in fields:
            # The first container of a rejected pod is counted, not the pod.
            self._count_rejection(str(fields["reason"]), fields)
        elif "equal_nodes" in fields:
            strategy = str(fields["strategy"])
            self.strategies[strategy] = self.strategies.get(strategy, 0) + 1
        elif "detected_by" in fields:
            self.cgroup_released_pods += 1
        elif event == SYNCHRONIZED:
            self.synchronized = fields
            self.synchronized_at_s = self._wall_s()

    def _count_rejection(self, reason: str, fields: Mapping[str, RecordValue]) -> None:
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        key = (str(fields.get("pod_uid")), str(fields["container"]), reason)
        if key in self._rejected:
            return
        self.first_rejections[reason] = self.first_rejections.get(reason, 0) + 1
        self._rejected[key] = None
        if len(self._rejected) > REJECTED_LIMIT:
            del self._rejected[next(iter(self._rejected))]

    def _count_misaligned(self, causes: RecordValue) -> None:
        for provider, cause in causes.items() if isinstance(causes, Mapping) else ():
            key = (provider, str(cause))
            self.misaligned[key] = self.misaligned.get(key, 0) + 1

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
