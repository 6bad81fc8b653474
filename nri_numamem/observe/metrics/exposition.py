"""The metrics in Prometheus's data model, made from the meter and the engine's state.

Metrics are computed for each scrape, on the scrape's thread, from the frozen value of the state.
That thread holds the interpreter's lock, so it pauses briefly after every metric to let the event
loop run. prometheus_client has the data model, the text formats and the metrics of the process.

No label comes from a pod without the setting `residency.perContainerMetrics`. This module is only
imported if metrics are enabled: the library and its imports take up to 10 MB.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TypeAlias
from wsgiref.types import WSGIApplication

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, make_wsgi_app
from prometheus_client.core import HistogramMetricFamily, InfoMetricFamily, Metric

from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.claims import records as claims
from nri_numamem.engine.features.cpu_following import records as cpu_following
from nri_numamem.engine.features.earmarks import records as earmarks
from nri_numamem.engine.features.memory_policies import records as memory_policies
from nri_numamem.engine.features.network_hints import records as network_hints
from nri_numamem.engine.features.partitions import records as partitions
from nri_numamem.engine.features.placement_strategy import records as placement_strategy
from nri_numamem.engine.records import connection, containers, machine, pods, process, running
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.log.loggers import dropped_records
from nri_numamem.observe.metrics.accounting import (
    accounting_metrics,
    container_metrics,
    cpu_metrics,
    node_metrics,
    partition_metrics,
    remote_metric,
    residency_metrics,
)
from nri_numamem.observe.metrics.counters import BUCKETS_S, Meter, Sources
from nri_numamem.observe.metrics.families import PREFIX, counter, gauge
from nri_numamem.version import VERSION

# Longer than the event loop takes for a request.
PAUSE_S = 0.0002

_Kinds: TypeAlias = tuple[type[Record], ...]

OUTCOMES: Mapping[str, tuple[str, _Kinds]] = {
    "containers": (
        "Decisions on containers, by event.",
        (
            containers.Admitted,
            containers.Adopted,
            containers.PinnedWhileRunning,
            containers.Rejected,
            containers.NotManaged,
            containers.UnpinnedNoCapacity,
            containers.RunningUnpinnedNoCapacity,
            containers.UnreportedContainerFound,
        ),
    ),
    "pods": (
        "Decisions on pods, by event; most are of pod scope only.",
        (pods.PodAdmitted, pods.PodAdopted, pods.PodRejected, pods.PodReleased),
    ),
    "resizes": (
        "Changes of memory limits at run time, by event.",
        (running.Resized, running.ResizeRejected),
    ),
    "burstable_containers": (
        "Containers of Burstable pods that are or could be pinned, by event.",
        (
            burstable_pods.BurstablePinned,
            burstable_pods.BurstableNotPinned,
            burstable_pods.BurstableUnpinned,
        ),
    ),
    "claims": (
        "Resource claims, and containers that use them, by event.",
        (
            claims.ClaimPrepared,
            claims.ClaimRejected,
            claims.ClaimReleased,
            claims.ClaimUsed,
            claims.ClaimUseRejected,
            claims.ClaimResizeRejected,
        ),
    ),
    "earmarks": (
        "Earmarks, by event.",
        (earmarks.EarmarkMade, earmarks.EarmarkRejected, earmarks.EarmarkEnded),
    ),
    "memory_policies": (
        "Memory policies of containers, by event.",
        (
            memory_policies.MemoryPolicySet,
            memory_policies.MemoryPolicyIgnored,
            memory_policies.MemoryPolicyRejected,
        ),
    ),
    "network_hints": (
        "Containers with network interfaces that count as hints, by event.",
        (
            network_hints.NetworkHintsFound,
            network_hints.NetworkHintsDisabled,
            network_hints.NetworkHintsIncomplete,
        ),
    ),
    "cpus": (
        "Decisions on CPUs beside memory, by event.",
        (cpu_following.CpusSet, cpu_following.CpusNotSet),
    ),
}
"""Counters of events: name -> description, events that are values of the label `outcome`."""

_SUMS: Mapping[str, tuple[str, _Kinds]] = {
    "ignored_strategy_annotations": (
        "Pods whose strategy is not allowed.",
        (placement_strategy.PlacementStrategyIgnored,),
    ),
    "confined_containers": (
        "Containers that got NUMA nodes by partitions, without an assignment.",
        (partitions.Confined,),
    ),
    "cpuset_mems_reapplied": (
        "Updates repeated because runtime and cgroup showed different cpuset.mems.",
        (running.CpusetMemsReapplied,),
    ),
    "cpuset_mems_conflicts": (
        "Containers whose cpuset.mems something else set.",
        (running.CpusetMemsConflict,),
    ),
    "machine_changes": (
        "Changes of NUMA nodes, memory sizes or hugepage pools.",
        (machine.MachineChanged,),
    ),
    "synchronizations": (
        "Times the allocation state was rebuilt from the runtime's list.",
        (connection.Synchronized,),
    ),
    "request_timeouts": (
        "Requests that took too long and got an empty reply.",
        (connection.RequestTimedOut, connection.SynchronizeTimedOut),
    ),
    "internal_errors": (
        "Requests and jobs that raised an internal error.",
        (connection.InternalError, connection.InternalErrorAfterReply, process.JobFailed),
    ),
    "invariant_violations": (
        "Checks that found the accounting inconsistent.",
        (process.AccountingInvariantViolated,),
    ),
}
"""Counters of events without a label: name -> description, events."""

# Fields of the event `configured` that are labels.
_RUNTIME_LABELS = ("runtime", "runtime_version", "nri_version")


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

        That exporter has its own process_* metrics and rejects a second one of a name, so those
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
        yield from _synchronize(meter)
        yield _durations(meter)
        yield from _files(self._sources)
        if committed is not None:
            context, state = committed.context, committed.state
            yield from container_metrics(state)
            known = dict.fromkeys(state.accounting.machine_state, 0)
            yield remote_metric({**known, **self._sources.remote_bytes()})
            yield from accounting_metrics(context, state)
            yield from node_metrics(context, state.accounting)
            yield from partition_metrics(context, state)
            yield from cpu_metrics(context, state)
            last = self._sources.residency()
            if last is not None:
                yield from residency_metrics(state, last)
            text = "Whether the kubelet's configuration activates its memory manager too."
            twice = int(context.policy.is_managed_twice)
            yield gauge("kubelet_memory_manager_conflict", text, twice)
        text = "Hugepages that count as free, but are in use by processes outside of pods."
        taken = {
            (nodes, resource): size_bytes
            for nodes, sizes in (meter.non_pod_hugepages or {}).items()
            for resource, size_bytes in sizes.items()
        }
        yield gauge("non_pod_hugepages_bytes", text, taken, "numa_nodes", "resource")


def _files(sources: Sources) -> Iterator[Metric]:
    text = "Writes of the state file that failed."
    yield counter("state_file_failed_writes", text, sources.failed_writes())
    written_at_s = sources.written_at_s()
    if written_at_s is not None:
        text = "When the state file was last written."
        yield gauge("state_file_last_write_timestamp_seconds", text, written_at_s)
    text = "Log records that could not be written."
    yield counter("log_records_dropped", text, dropped_records())


def _connection(meter: Meter) -> Iterator[Metric]:
    text = "Whether the plugin is registered with the runtime."
    yield gauge("connected", text, int(meter.is_registered))
    text = "Successful registrations with the runtime."
    yield counter("registrations", text, meter.registrations)
    yield counter("starts", "Starts of the plugin's process.", dict(meter.starts), "cause")
    if meter.runtime:
        shown = fields_of(meter.runtime)
        about = {name: str(shown[name] or "") for name in _RUNTIME_LABELS}
        yield InfoMetricFamily(f"{PREFIX}runtime", "Name and versions of the runtime.", about)


def _decisions(meter: Meter) -> Iterator[Metric]:
    events = meter.events
    for name, (text, kinds) in OUTCOMES.items():
        yield counter(name, text, {kind.event: events[kind.event] for kind in kinds}, "outcome")
    for name, (text, kinds) in _SUMS.items():
        yield counter(name, text, sum(events[kind.event] for kind in kinds))
    text = "Requests of containers that no NUMA nodes could hold."
    yield counter("rejections", text, meter.reasons.copy(), "reason")
    text = "Containers that no NUMA nodes could hold; retries do not count again."
    yield counter("rejected_containers", text, meter.first_rejections.copy(), "reason")
    text = "Containers whose memory is on no NUMA node of their CPUs or of a device."
    yield counter("misalignments", text, meter.misaligned.copy(), "provider", "cause")
    text = "Placements in which the strategy decided between equally good NUMA nodes."
    yield counter("strategy_decisions", text, meter.strategies.copy(), "strategy")
    text = "Pods released because their cgroup disappeared."
    yield counter("cgroup_released_pods", text, meter.cgroup_released_pods)


def _synchronize(meter: Meter) -> Iterator[Metric]:
    if meter.synchronized_at_s is not None:
        text = "When the allocation state was last rebuilt from the runtime's list."
        yield gauge("last_synchronize_timestamp_seconds", text, meter.synchronized_at_s)
    last, counts = meter.synchronized, (0, 0, 0, 0)
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


def _durations(meter: Meter) -> Metric:
    name, text = f"{PREFIX}request_duration_seconds", "Time from a request to its reply."
    metric = HistogramMetricFamily(name, text, labels=["method"])
    bounds = (*(str(bound_s) for bound_s in BUCKETS_S), "+Inf")
    for method, duration in meter.durations.copy().items():
        counts = list(accumulate(duration.counts))
        if counts[-1]:
            metric.add_metric([method], list(zip(bounds, counts, strict=True)), duration.sum_s)
    return metric
