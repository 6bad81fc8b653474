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

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.cpu_following import records as cpu_following
from nri_numamem.engine.features.memory_policies import records as memory_policies
from nri_numamem.engine.features.network_hints import records as network_hints
from nri_numamem.engine.features.placement_strategy import records as placement_strategy
from nri_numamem.engine.records import connection, containers, machine, pods, process, running
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Amounts, Record
from nri_numamem.observe.log.loggers import dropped_records
from nri_numamem.observe.metrics.accounting import (
    accounting_metrics,
    container_metrics,
    cpu_metrics,
)
from nri_numamem.observe.metrics.counters import BUCKETS_S, Meter
from nri_numamem.observe.metrics.families import PREFIX, counter, counters, gauge
from nri_numamem.observe.metrics.memory_nodes import (
    node_metrics,
    remote_metric,
    residency_metrics,
)
from nri_numamem.observe.metrics.sources import Sources
from nri_numamem.version import VERSION

# Longer than the event loop takes for a request.
PAUSE_S = 0.0002

# Events that are values of the label `outcome`.
CONTAINER_OUTCOMES = (
    containers.Admitted,
    containers.Adopted,
    containers.PinnedWhileRunning,
    containers.Rejected,
    containers.NotManaged,
    containers.UnpinnedNoCapacity,
    containers.RunningUnpinnedNoCapacity,
    containers.UnreportedContainerFound,
)
POD_OUTCOMES = (
    pods.PodAdmitted,
    pods.PodAdopted,
    pods.PodRejected,
    pods.PodReleased,
)
BURSTABLE_OUTCOMES = (
    burstable_pods.BurstablePinned,
    burstable_pods.BurstableNotPinned,
    burstable_pods.BurstableUnpinned,
)
POLICY_OUTCOMES = (
    memory_policies.MemoryPolicySet,
    memory_policies.MemoryPolicyIgnored,
    memory_policies.MemoryPolicyRejected,
)
NETWORK_OUTCOMES = (
    network_hints.NetworkHintsFound,
    network_hints.NetworkHintsDisabled,
    network_hints.NetworkHintsIncomplete,
)
CPU_OUTCOMES = (cpu_following.CpusSet, cpu_following.CpusNotSet)
RESIZE_OUTCOMES = (running.Resized, running.ResizeRejected)
# Fields of the event `configured` that are labels.
RUNTIME_LABELS = ("runtime", "runtime_version", "nri_version")

_TIMEOUTS = (connection.RequestTimedOut, connection.SynchronizeTimedOut)
_ERRORS = (connection.InternalError, connection.InternalErrorAfterReply, process.JobFailed)


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
            yield remote_metric({**known, **self._sources.remote_bytes()})
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


def _connection(meter: Meter) -> Iterator[Metric]:
    yield gauge(
        "connected", "Whether the plugin is registered with the runtime.", int(meter.is_registered)
    )
    yield counter(
        "registrations", "Successful registrations with the runtime.", meter.registrations
    )
    yield counters("starts", "Starts of the plugin's process.", "cause", dict(meter.starts))
    if meter.runtime:
        shown = fields_of(meter.runtime)
        about = {name: str(shown[name] or "") for name in RUNTIME_LABELS}
        yield InfoMetricFamily(f"{PREFIX}runtime", "Name and versions of the runtime.", about)


def _strategies(meter: Meter) -> Iterator[Metric]:
    yield counters(
        "strategy_decisions",
        "Placements in which the strategy decided between equally good NUMA nodes.",
        "strategy",
        meter.strategies.copy(),
    )
    ignored = meter.events[placement_strategy.PlacementStrategyIgnored.event]
    yield counter("ignored_strategy_annotations", "Pods whose strategy is not allowed.", ignored)


def _decisions(meter: Meter) -> Iterator[Metric]:
    events = meter.events

    def by_outcome(name: str, text: str, outcomes: Iterable[type[Record]]) -> Metric:
        return counters(
            name, text, "outcome", {kind.event: events[kind.event] for kind in outcomes}
        )

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
        events[running.CpusetMemsReapplied.event],
    )
    text = "Containers whose cpuset.mems something else set."
    yield counter("cpuset_mems_conflicts", text, events[running.CpusetMemsConflict.event])
    text = "Changes of NUMA nodes, memory sizes or hugepage pools."
    yield counter("machine_changes", text, events[machine.MachineChanged.event])
    yield from _synchronizations(meter)


def _synchronizations(meter: Meter) -> Iterator[Metric]:
    yield counter(
        "synchronizations",
        "Times the allocation state was rebuilt from the runtime's list.",
        meter.events[connection.Synchronized.event],
    )
    if meter.synchronized_at_s is not None:
        text = "When the allocation state was last rebuilt from the runtime's list."
        yield gauge("last_synchronize_timestamp_seconds", text, meter.synchronized_at_s)
    last = meter.synchronized
    counts = (0, 0, 0, 0)
    if last is not None:
        counts = (last.pod_count, last.container_count, last.adopted_count, last.updated_count)
    texts = {
        "pods": "Pods in the last Synchronize.",
        "containers": "Containers in the last Synchronize.",
        "adopted": "Containers that kept their NUMA nodes.",
        "updated": "Containers whose cpuset.mems was updated.",
    }
    for (name, text), count in zip(texts.items(), counts, strict=True):
        yield gauge(f"last_synchronize_{name}", text, count)


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
    timeouts = sum(meter.events[kind.event] for kind in _TIMEOUTS)
    yield counter(
        "request_timeouts", "Requests that took too long and got an empty reply.", timeouts
    )
    errors = sum(meter.events[kind.event] for kind in _ERRORS)
    yield counter("internal_errors", "Requests and jobs that raised an internal error.", errors)
    violations = meter.events[process.AccountingInvariantViolated.event]
    yield counter(
        "invariant_violations", "Checks that found the accounting inconsistent.", violations
    )


def _non_pod_hugepages(taken: Mapping[str, Amounts] | None) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}non_pod_hugepages_bytes",
        "Hugepages that count as free, but are in use by processes outside of pods.",
        labels=["numa_nodes", "resource"],
    )
    for nodes, sizes in (taken or {}).items():
        for resource, size_bytes in sizes.items():
            metric.add_metric([nodes, resource], size_bytes)
    return metric
