"""The metrics in Prometheus's data model, made from the meter and the engine's state.

Metrics are computed for each scrape, on the scrape's thread, from the frozen value of the state.
That thread holds the interpreter's lock, so it pauses briefly after every metric to let the event
loop run. prometheus_client has the data model, the text formats and the metrics of the process.

No label comes from a pod. This module is only imported if metrics are enabled: the library and its
imports take up to 10 MB.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from wsgiref.types import WSGIApplication

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from nri_numamem.engine.alignment import misaligned_containers
from nri_numamem.engine.context import Context
from nri_numamem.engine.cpuset_check import unpinned_containers
from nri_numamem.engine.plan import RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.state import POOL, EngineState
from nri_numamem.memorymanager import NodeState, State
from nri_numamem.observe.log.loggers import dropped_records
from nri_numamem.observe.metrics.counters import BUCKETS_S, SYNCHRONIZED, Meter
from nri_numamem.observe.metrics.memory_nodes import node_metrics, shortfall_bytes
from nri_numamem.version import VERSION

PREFIX = "nri_numamem_"

# Longer than the event loop takes for a request.
PAUSE_S = 0.0002

# Events that are values of the label `outcome`.
CONTAINER_OUTCOMES = (
    EventName.ADMITTED,
    EventName.ADOPTED,
    EventName.PINNED_WHILE_RUNNING,
    EventName.REJECTED,
    EventName.NOT_MANAGED,
    EventName.UNPINNED_NO_CAPACITY,
    EventName.RUNNING_UNPINNED_NO_CAPACITY,
    EventName.UNREPORTED_CONTAINER_FOUND,
)
POD_OUTCOMES = (
    EventName.POD_ADMITTED,
    EventName.POD_ADOPTED,
    EventName.POD_REJECTED,
    EventName.POD_RELEASED,
)
RESIZE_OUTCOMES = (EventName.RESIZED, EventName.RESIZE_REJECTED)
# Fields of the event `configured` that are labels.
RUNTIME_LABELS = ("runtime", "runtime_version", "nri_version")

_TIMEOUTS = (EventName.REQUEST_TIMED_OUT, EventName.SYNCHRONIZE_TIMED_OUT)
_ERRORS = (EventName.INTERNAL_ERROR, EventName.INTERNAL_ERROR_AFTER_REPLY, EventName.JOB_FAILED)


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the figures. Any thread may call the functions."""

    meter: Meter
    state: Callable[[], EngineState | None]
    """Return the engine's state; None without an engine."""
    failed_writes: Callable[[], int]
    """Return how many writes of the state file failed."""
    context: Callable[[], Context | None]
    """Return the engine's context; None without an engine."""


class Metrics:
    """All metrics of the plugin."""

    def __init__(self, sources: Sources, *, pause_s: float = PAUSE_S) -> None:
        self._sources = sources
        self._pause_s = pause_s
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def wsgi_app(self) -> WSGIApplication:
        """Return a WSGI application that serves the metrics in the format the client accepts."""
        app: WSGIApplication = make_wsgi_app(self.registry)
        return app

    def collect(self) -> Iterator[Metric]:
        """Yield each metric."""
        for metric in self._metrics():
            yield metric
            time.sleep(self._pause_s)

    def _metrics(self) -> Iterator[Metric]:
        meter, state = self._sources.meter, self._sources.state()
        about = {"version": VERSION, "python": platform.python_version()}
        yield InfoMetricFamily(f"{PREFIX}build", "Version of the plugin and of Python.", about)
        yield from _connection(meter)
        yield from _decisions(meter)
        yield from _requests(meter)
        yield _counter(
            "state_file_failed_writes",
            "Writes of the state file that failed.",
            self._sources.failed_writes(),
        )
        yield _counter(
            "log_records_dropped",
            "Log records that could not be written.",
            dropped_records(),
        )
        if state is not None:
            yield from _state(state)
            yield from _nodes(state.accounting.machine_state)
        context = self._sources.context()
        if state is not None and context is not None:
            yield _shortfall(context, state.accounting)
            yield from node_metrics(context, state.accounting)
        yield _non_pod_hugepages(meter.non_pod_hugepages)


def _connection(meter: Meter) -> Iterator[Metric]:
    yield _gauge(
        "connected", "Whether the plugin is registered with the runtime.", int(meter.is_registered)
    )
    yield _counter(
        "registrations", "Successful registrations with the runtime.", meter.registrations
    )
    if meter.runtime:
        about = {name: str(meter.runtime.get(name) or "") for name in RUNTIME_LABELS}
        yield InfoMetricFamily(f"{PREFIX}runtime", "Name and versions of the runtime.", about)


def _decisions(meter: Meter) -> Iterator[Metric]:
    events = meter.events

    def by_outcome(name: str, text: str, outcomes: Iterable[EventName]) -> Metric:
        return _counters(name, text, "outcome", {event: events[event] for event in outcomes})

    yield by_outcome("containers", "Decisions on containers, by event.", CONTAINER_OUTCOMES)
    yield by_outcome(
        "pods", "Decisions on pods, by event; most are of pod scope only.", POD_OUTCOMES
    )
    yield _counters(
        "rejections",
        "Requests of containers that no NUMA nodes could hold.",
        "reason",
        meter.reasons.copy(),
    )
    yield _misalignments(meter.misaligned.copy())
    yield by_outcome("resizes", "Changes of memory limits at run time, by event.", RESIZE_OUTCOMES)
    yield _counter(
        "cgroup_released_pods",
        "Pods released because their cgroup disappeared.",
        meter.cgroup_released_pods,
    )
    yield _counter(
        "cpuset_mems_reapplied",
        "Updates repeated because runtime and cgroup showed different cpuset.mems.",
        events[EventName.CPUSET_MEMS_REAPPLIED],
    )
    text = "Containers whose cpuset.mems something else set."
    yield _counter("cpuset_mems_conflicts", text, events[EventName.CPUSET_MEMS_CONFLICT])
    text = "Changes of NUMA nodes, memory sizes or hugepage pools."
    yield _counter("machine_changes", text, events[EventName.MACHINE_CHANGED])
    yield _counter(
        "synchronizations",
        "Times the allocation state was rebuilt from the runtime's list.",
        events[SYNCHRONIZED],
    )
    last = {
        "pods": ("pod_count", "Pods in the last Synchronize."),
        "containers": ("container_count", "Containers in the last Synchronize."),
        "adopted": ("adopted_count", "Containers that kept their NUMA nodes."),
        "updated": ("updated_count", "Containers whose cpuset.mems was updated."),
    }
    for name, (field, text) in last.items():
        yield _gauge(f"last_synchronize_{name}", text, _number(meter.synchronized.get(field)))


def _misalignments(counts: Mapping[tuple[str, str], int]) -> Metric:
    text = "Containers whose memory is on no NUMA node of their CPUs or of a device."
    metric = CounterMetricFamily(f"{PREFIX}misalignments", text, labels=["provider", "cause"])
    for labels, count in counts.items():
        metric.add_metric(labels, count)
    return metric


def _requests(meter: Meter) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        f"{PREFIX}request_duration_seconds", "Time from a request to its reply.", labels=["method"]
    )
    bounds = (*(str(bound_s) for bound_s in BUCKETS_S), "+Inf")
    for method, duration in meter.durations.copy().items():
        counts = list(accumulate(duration.counts))
        if counts[-1]:
            durations.add_metric([method], list(zip(bounds, counts, strict=True)), duration.sum_s)
    yield durations
    timeouts = sum(meter.events[event] for event in _TIMEOUTS)
    yield _counter(
        "request_timeouts", "Requests that took too long and got an empty reply.", timeouts
    )
    errors = sum(meter.events[event] for event in _ERRORS)
    yield _counter("internal_errors", "Requests and jobs that raised an internal error.", errors)
    violations = meter.events[EventName.ACCOUNTING_INVARIANT_VIOLATED]
    yield _counter(
        "invariant_violations", "Checks that found the accounting inconsistent.", violations
    )


def _state(state: EngineState) -> Iterator[Metric]:
    live = sum(not h.ended and h.key[1] != POOL for h in state.holders.values())
    assigned = sum(len(containers) for containers in state.accounting.assignments.values())
    yield _gauge("running_pods", "Pods with a running sandbox.", len(state.pods))
    yield _gauge("running_containers", "Running containers with assignments.", live)
    misaligned = sum(1 for _ in misaligned_containers(state))
    text = "Running containers whose memory is on no NUMA node of their CPUs or of a device."
    yield _gauge("misaligned_containers", text, misaligned)
    text = "Running containers with assignments whose cgroup has no cpuset.mems."
    yield _gauge("unpinned_containers", text, len(unpinned_containers(state)))
    yield _gauge("assignments", "Assignments, with those that pods keep for reuse.", assigned)


def _nodes(nodes: Mapping[int, NodeState]) -> Iterator[Metric]:
    tables = [
        (str(node_id), resource, table)
        for node_id, node in nodes.items()
        for resource, table in node.memory_map.items()
    ]
    figures = {
        "total": "Bytes of the NUMA node.",
        "system_reserved": "Bytes reserved for the system.",
        "allocatable": "Bytes for pods.",
        "reserved": "Bytes assigned to containers.",
        "free": "Bytes free for containers.",
    }
    for name, text in figures.items():
        metric = GaugeMetricFamily(
            f"{PREFIX}node_{name}_bytes", text, labels=["numa_node", "resource"]
        )
        for node_id, resource, table in tables:
            metric.add_metric([node_id, resource], getattr(table, name))
        yield metric
    assignments = {str(node_id): node.number_of_assignments for node_id, node in nodes.items()}
    yield _gauges("node_assignments", "Blocks on the NUMA node.", "numa_node", assignments)
    sizes = {str(node_id): len(node.cells) for node_id, node in nodes.items()}
    yield _gauges(
        "node_group_size",
        "NUMA nodes in its group; 1 if single.",
        "numa_node",
        sizes,
    )


def _shortfall(context: Context, accounting: State) -> Metric:
    text = "Memory of running containers exceeding their nodes' allocatable."
    return _gauges("shortfall_bytes", text, "resource", shortfall_bytes(context, accounting))


def _non_pod_hugepages(taken: RecordValue) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}non_pod_hugepages_bytes",
        "Hugepages that count as free, but are in use by processes outside of pods.",
        labels=["numa_nodes", "resource"],
    )
    for nodes, sizes in taken.items() if isinstance(taken, Mapping) else ():
        for resource, size_bytes in sizes.items() if isinstance(sizes, Mapping) else ():
            metric.add_metric([nodes, resource], _number(size_bytes))
    return metric


def _counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", text, value)


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _filled(CounterMetricFamily(f"{PREFIX}{name}", text, labels=[label]), values)


def _gauge(name: str, text: str, value: int) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _filled(GaugeMetricFamily(f"{PREFIX}{name}", text, labels=[label]), values)


def _filled(metric: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, int]) -> Metric:
    for word, value in values.items():
        metric.add_metric([word], value)
    return metric


def _number(value: RecordValue) -> int:
    return value if isinstance(value, int) else 0
