"""The metrics in Prometheus's data model, made from the meter and the engine's state.

Metrics are computed for each scrape, on the scrape's thread, from the frozen value of the state.
That thread holds the interpreter's lock, so it pauses briefly after every metric to let the event
loop run. prometheus_client has the data model, the text formats and the metrics of the process.

No label comes from a pod without the setting `residency.perContainerMetrics`. This module is only
imported if metrics are enabled: the library and its imports take up to 10 MB.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from wsgiref.types import WSGIApplication

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
    make_wsgi_app,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.observe.log.loggers import dropped_records
from nri_numamem.observe.metrics.accounting import (
    accounting_metrics,
    container_metrics,
    cpu_metrics,
)
from nri_numamem.observe.metrics.counters import BUCKETS_S, SYNCHRONIZED, Meter
from nri_numamem.observe.metrics.families import (
    PREFIX,
    counter,
    counters,
    gauge,
    gauges,
    number,
)
from nri_numamem.observe.metrics.memory_nodes import node_metrics
from nri_numamem.observe.metrics.residency import residency_metrics
from nri_numamem.observe.metrics.sources import Sources
from nri_numamem.version import VERSION

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
BURSTABLE_OUTCOMES = (
    EventName.BURSTABLE_PINNED,
    EventName.BURSTABLE_NOT_PINNED,
    EventName.BURSTABLE_UNPINNED,
)
POLICY_OUTCOMES = (
    EventName.MEMORY_POLICY_SET,
    EventName.MEMORY_POLICY_IGNORED,
    EventName.MEMORY_POLICY_REJECTED,
)
NETWORK_OUTCOMES = (
    EventName.NETWORK_HINTS_FOUND,
    EventName.NETWORK_HINTS_DISABLED,
    EventName.NETWORK_HINTS_INCOMPLETE,
)
CPU_OUTCOMES = (EventName.CPUS_SET, EventName.CPUS_NOT_SET)
RESIZE_OUTCOMES = (EventName.RESIZED, EventName.RESIZE_REJECTED)
# Fields of the event `configured` that are labels.
RUNTIME_LABELS = ("runtime", "runtime_version", "nri_version")

_TIMEOUTS = (EventName.REQUEST_TIMED_OUT, EventName.SYNCHRONIZE_TIMED_OUT)
_ERRORS = (EventName.INTERNAL_ERROR, EventName.INTERNAL_ERROR_AFTER_REPLY, EventName.JOB_FAILED)


class Metrics:
    """All metrics of the plugin."""

    def __init__(self, sources: Sources, *, pause_s: float = PAUSE_S) -> None:
        self._sources = sources
        self._pause_s = pause_s
        self.registry = self._registry("")

    def _registry(self, process_prefix: str) -> CollectorRegistry:
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(process_prefix, registry=registry)
        return registry

    def wsgi_app(self) -> WSGIApplication:
        """Return a WSGI application that serves the metrics in the format the client accepts."""
        app: WSGIApplication = make_wsgi_app(self.registry)
        return app

    def text_renderer(self) -> Callable[[], bytes]:
        """Return a function that makes the text for node_exporter's textfile collector.

        That exporter has process_* metrics of its own and rejects a second one of a name, so those
        of this process have the prefix.
        """
        registry = self._registry(PREFIX.rstrip("_"))
        return lambda: generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric."""
        for metric in self._metrics():
            yield metric
            time.sleep(self._pause_s)

    def _metrics(self) -> Iterator[Metric]:
        meter, committed = self._sources.meter, self._sources.committed()
        about = {"version": VERSION, "python": platform.python_version()}
        yield InfoMetricFamily(f"{PREFIX}build", "Version of the plugin and of Python.", about)
        text = "Whether this instance waits for the end of another one, which serves the runtime."
        yield gauge("standby", text, int(bool(self._sources.standby())))
        yield from _connection(meter)
        yield from _decisions(meter)
        yield from _strategies(meter)
        yield from _requests(meter)
        yield from _files(self._sources)
        if committed is not None:
            context, state = committed.context, committed.state
            yield from container_metrics(state)
            known = dict.fromkeys(state.accounting.machine_state, 0)
            yield _remote({**known, **self._sources.remote_bytes()})
            yield from accounting_metrics(context, state.accounting)
            yield from node_metrics(context, state.accounting)
            yield from cpu_metrics(context, state)
            last = self._sources.residency()
            if last is not None:
                yield from residency_metrics(state, last)
            yield gauge(
                "kubelet_memory_manager_conflict",
                "Whether the kubelet's configuration activates its memory manager too.",
                int(context.policy.is_managed_twice),
            )
        yield _non_pod_hugepages(meter.non_pod_hugepages)


def _files(sources: Sources) -> Iterator[Metric]:
    text = "Writes of the state file that failed."
    yield counter("state_file_failed_writes", text, sources.failed_writes())
    written_at_s = sources.written_at_s()
    if written_at_s is not None:
        text = "When the state file was last written."
        yield gauge("state_file_last_write_timestamp_seconds", text, written_at_s)
    yield counter(
        "log_records_dropped", "Log records that could not be written.", dropped_records()
    )


def _remote(amounts: Mapping[int, int]) -> Metric:
    """Return the bytes per node on which pages lie of containers that are pinned elsewhere."""
    return gauges(
        "remote_bytes",
        "Anonymous and hugetlb pages on the NUMA node, of containers pinned to other nodes.",
        "numa_node",
        {str(node): size_bytes for node, size_bytes in amounts.items()},
    )


def _connection(meter: Meter) -> Iterator[Metric]:
    yield gauge(
        "connected", "Whether the plugin is registered with the runtime.", int(meter.is_registered)
    )
    yield counter(
        "registrations", "Successful registrations with the runtime.", meter.registrations
    )
    yield counters("starts", "Starts of the plugin's process.", "cause", dict(meter.starts))
    if meter.runtime:
        about = {name: str(meter.runtime.get(name) or "") for name in RUNTIME_LABELS}
        yield InfoMetricFamily(f"{PREFIX}runtime", "Name and versions of the runtime.", about)


def _strategies(meter: Meter) -> Iterator[Metric]:
    yield counters(
        "strategy_decisions",
        "Placements in which the strategy decided between equally good NUMA nodes.",
        "strategy",
        meter.strategies.copy(),
    )
    ignored = meter.events[EventName.PLACEMENT_STRATEGY_IGNORED]
    yield counter("ignored_strategy_annotations", "Pods whose strategy is not allowed.", ignored)


def _decisions(meter: Meter) -> Iterator[Metric]:
    events = meter.events

    def by_outcome(name: str, text: str, outcomes: Iterable[EventName]) -> Metric:
        return counters(name, text, "outcome", {event: events[event] for event in outcomes})

    yield by_outcome("containers", "Decisions on containers, by event.", CONTAINER_OUTCOMES)
    yield by_outcome(
        "pods", "Decisions on pods, by event; most are of pod scope only.", POD_OUTCOMES
    )
    yield counters(
        "rejections",
        "Requests of containers that no NUMA nodes could hold.",
        "reason",
        meter.reasons.copy(),
    )
    yield counters(
        "rejected_containers",
        "Containers that no NUMA nodes could hold; retries do not count again.",
        "reason",
        meter.first_rejections.copy(),
    )
    yield _misalignments(meter.misaligned.copy())
    yield by_outcome("resizes", "Changes of memory limits at run time, by event.", RESIZE_OUTCOMES)
    text = "Containers of Burstable pods that are or could be pinned, by event."
    yield by_outcome("burstable_containers", text, BURSTABLE_OUTCOMES)
    yield by_outcome("memory_policies", "Memory policies of containers, by event.", POLICY_OUTCOMES)
    text = "Containers with network interfaces that count as hints, by event."
    yield by_outcome("network_hints", text, NETWORK_OUTCOMES)
    yield by_outcome("cpus", "Decisions on CPUs beside memory, by event.", CPU_OUTCOMES)
    yield counter(
        "cgroup_released_pods",
        "Pods released because their cgroup disappeared.",
        meter.cgroup_released_pods,
    )
    yield counter(
        "cpuset_mems_reapplied",
        "Updates repeated because runtime and cgroup showed different cpuset.mems.",
        events[EventName.CPUSET_MEMS_REAPPLIED],
    )
    text = "Containers whose cpuset.mems something else set."
    yield counter("cpuset_mems_conflicts", text, events[EventName.CPUSET_MEMS_CONFLICT])
    text = "Changes of NUMA nodes, memory sizes or hugepage pools."
    yield counter("machine_changes", text, events[EventName.MACHINE_CHANGED])
    yield from _synchronizations(meter)


def _synchronizations(meter: Meter) -> Iterator[Metric]:
    yield counter(
        "synchronizations",
        "Times the allocation state was rebuilt from the runtime's list.",
        meter.events[SYNCHRONIZED],
    )
    if meter.synchronized_at_s is not None:
        text = "When the allocation state was last rebuilt from the runtime's list."
        yield gauge("last_synchronize_timestamp_seconds", text, meter.synchronized_at_s)
    last = {
        "pods": ("pod_count", "Pods in the last Synchronize."),
        "containers": ("container_count", "Containers in the last Synchronize."),
        "adopted": ("adopted_count", "Containers that kept their NUMA nodes."),
        "updated": ("updated_count", "Containers whose cpuset.mems was updated."),
    }
    for name, (field, text) in last.items():
        yield gauge(f"last_synchronize_{name}", text, number(meter.synchronized.get(field)))


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
    yield counter(
        "request_timeouts", "Requests that took too long and got an empty reply.", timeouts
    )
    errors = sum(meter.events[event] for event in _ERRORS)
    yield counter("internal_errors", "Requests and jobs that raised an internal error.", errors)
    violations = meter.events[EventName.ACCOUNTING_INVARIANT_VIOLATED]
    yield counter(
        "invariant_violations", "Checks that found the accounting inconsistent.", violations
    )


def _non_pod_hugepages(taken: RecordValue) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}non_pod_hugepages_bytes",
        "Hugepages that count as free, but are in use by processes outside of pods.",
        labels=["numa_nodes", "resource"],
    )
    for nodes, sizes in taken.items() if isinstance(taken, Mapping) else ():
        for resource, size_bytes in sizes.items() if isinstance(sizes, Mapping) else ():
            metric.add_metric([nodes, resource], number(size_bytes))
    return metric
