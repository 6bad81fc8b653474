"""Counts what the plugin does, in plain numbers, for whoever looks at them later.

The loop counts: each record that it logs, each request that it has answered. That costs it less
than a microsecond per request, whether somebody looks or not, and needs no library. Other threads
only read; what they read is one number or one copy at a time, so it may be of two moments, and is
never broken. What the numbers are called outside is known to ``observe.metrics``.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TypeVar

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.memorymanager.refusal import TOPOLOGY, UNEXPECTED

_Request = TypeVar("_Request")
_Deadline = TypeVar("_Deadline")
_Result = TypeVar("_Result")

# From what a request takes at best, to what a runtime waits by default.
BUCKETS_S = (
    *(50e-6, 100e-6, 200e-6, 500e-6),
    *(1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3),
    *(0.1, 0.2, 0.5, 1.0, 2.0),
)

CONFIGURED = "configured by the runtime"
SYNCHRONIZED = "synchronized"
OUTSIDE = ("hugepages taken outside of pods", "hugepages no longer taken outside of pods")

COUNTED = (
    "admitted",
    "adopted",
    "rejected",
    "left alone",
    "left alone, nothing fits",
    "pinned while running",
    "runs unpinned, nothing fits",
    "found running, never told",
    "sent again",
    "pod admitted",
    "pod adopted",
    "pod rejected",
    "pod released",
    "resized",
    "resize refused",
    "machine changed",
    "request took too long, answered neutrally",
    "Synchronize took too long",
    "internal error, answered neutrally",
    "internal error after the reply",
    SYNCHRONIZED,
)
"""Events of records of which it is counted how often they happened."""


class Durations:
    """How long something took: how often each of BUCKETS_S was enough, and the sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        """Per bucket what the one before it did not hold; the last is what no bucket holds."""
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count one more."""
        self.counts[bisect_left(BUCKETS_S, duration_s)] += 1
        self.sum_s += duration_s


class Meter:
    """What happened since the process started. Written by one thread."""

    def __init__(self) -> None:
        self.events = dict.fromkeys(COUNTED, 0)
        """Event of a record -> how often."""
        self.reasons = {TOPOLOGY: 0, UNEXPECTED: 0}
        """The kubelet's reason -> how many containers found no place because of it."""
        self.swept_pods = 0
        """Pods whose end was noticed by their cgroup only."""
        self.durations: dict[str, Durations] = {}
        """Method of the plugin's service -> how long its requests took."""
        self.runtime: Mapping[str, RecordValue] = {}
        """What the runtime said of itself, last time."""
        self.synchronized: Mapping[str, RecordValue] = {}
        """What the last Synchronize told and changed."""
        self.outside: RecordValue = None
        """NUMA nodes -> resource -> bytes that others than pods have; None: there are none."""
        self.registrations = 0
        self.is_registered = False

    def count(self, record: Record) -> None:
        """Count a record."""
        event, fields = record.event, record.fields
        if event not in self.events:
            if event == CONFIGURED:
                self.runtime = fields
            elif event in OUTSIDE:
                self.outside = fields.get("taken_outside")
            return
        self.events[event] += 1
        if "reason" in fields and "container" in fields:
            # A pod that is rejected is rejected again with its first container.
            reason = str(fields["reason"])
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        elif "noticed_by" in fields:
            self.swept_pods += 1
        elif event == SYNCHRONIZED:
            self.synchronized = fields

    def registered(self) -> None:
        """Count a connection that the runtime took us on."""
        self.registrations += 1
        self.is_registered = True

    def disconnected(self) -> None:
        """Note that there is no connection."""
        self.is_registered = False

    def timed(
        self, method: str, call: Callable[[_Request, _Deadline], _Result]
    ) -> Callable[[_Request, _Deadline], _Result]:
        """Return a function that does what `call` does, and counts how long that took."""
        add = self.durations.setdefault(method, Durations()).add
        clock = time.perf_counter

        def timed_call(request: _Request, deadline: _Deadline) -> _Result:
            began_s = clock()
            try:
                return call(request, deadline)
            finally:
                add(clock() - began_s)

        return timed_call
