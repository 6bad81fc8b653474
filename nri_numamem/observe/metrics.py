"""The metrics: what the meter has counted and what the engine knows, in Prometheus's words.

Made anew for each scrape, on the scraper's thread: the engine's state is one frozen value, so a
reference to it is all that is taken from the loop. Whoever renders text holds the interpreter, and
the loop waits for it; so there is a short pause after every metric, in which the loop gets its
turn. The library has the data model, both text formats, and the figures of the process.

No label comes from a pod. Imported only where metrics are switched on: the library and what it
imports of the standard library (HTTP, TLS, mail) take up to 10 MB.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from nri_numamem.engine.plan import RecordValue
from nri_numamem.engine.podscope import POOL
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import NodeState, State
from nri_numamem.observe.logs import dropped_records
from nri_numamem.observe.meter import BUCKETS_S, SYNCHRONIZED, Meter
from nri_numamem.values import valueclass
from nri_numamem.version import VERSION

PREFIX = "nri_numamem_"

# Longer than the loop needs for a request, shorter than a scraper notices.
PAUSE_S = 0.0002

# Event of a record -> label.
CONTAINER_OUTCOMES = {
    "admitted": "admitted",
    "adopted": "adopted",
    "pinned while running": "pinned_while_running",
    "rejected": "rejected",
    "left alone": "left_alone",
    "left alone, nothing fits": "left_alone_nothing_fits",
    "runs unpinned, nothing fits": "runs_unpinned_nothing_fits",
    "found running, never told": "found_running",
}
POD_OUTCOMES = {
    "pod admitted": "admitted",
    "pod adopted": "adopted",
    "pod rejected": "rejected",
    "pod released": "released",
}
# Fields of the record of Configure, and labels.
RUNTIME_LABELS = ("runtime", "runtime_version", "nri_version")

_OVERRUNS = ("request took too long, answered neutrally", "Synchronize took too long")
_ERRORS = ("internal error, answered neutrally", "internal error after the reply")


@valueclass(frozen=True, slots=True)
class Sources:
    """Where the figures are; all may be asked from any thread."""

    meter: Meter
    state: Callable[[], EngineState | None]
    """The engine's present state; None without an engine."""
    failed_writes: Callable[[], int]
    """How many writes of the state file failed."""


class Metrics:
    """All metrics of the plugin."""

    def __init__(self, sources: Sources, *, pause_s: float = PAUSE_S) -> None:
        self._sources = sources
        self._pause_s = pause_s
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text, in the format that an Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Make each metric, one after the other."""
        for metric in self._metrics():
            yield metric
            time.sleep(self._pause_s)

    def _metrics(self) -> Iterator[Metric]:
        meter, state = self._sources.meter, self._sources.state()
        about = {"version": VERSION, "python": platform.python_version()}
        yield InfoMetricFamily(f"{PREFIX}build", "The plugin.", about)
        yield from _connection(meter)
        yield from _decisions(meter)
        yield from _requests(meter)
        yield _counter(
            "state_file_failed_writes",
            "Failed writes of the state file.",
            self._sources.failed_writes(),
        )
        yield _gauge(
            "log_records_dropped",
            "Log records that were lost since one got through.",
            dropped_records(),
        )
        if state is not None:
            yield from _state(state)
            yield from _nodes(state.books.machine_state)
            yield _unfit(state.books)
        yield _outside(meter.outside)


def _connection(meter: Meter) -> Iterator[Metric]:
    yield _gauge(
        "connected", "Whether the runtime has registered the plugin.", int(meter.is_registered)
    )
    yield _counter("registrations", "Connections that the runtime took.", meter.registrations)
    if meter.runtime:
        about = {name: str(meter.runtime.get(name) or "") for name in RUNTIME_LABELS}
        yield InfoMetricFamily(f"{PREFIX}runtime", "The runtime, by its own words.", about)


def _decisions(meter: Meter) -> Iterator[Metric]:
    events = meter.events
    yield _counters(
        "containers",
        "Containers by what was decided.",
        "outcome",
        {label: events[event] for event, label in CONTAINER_OUTCOMES.items()},
    )
    yield _counters(
        "pods",
        "Pods by what was decided; only pod scope admits pods.",
        "outcome",
        {label: events[event] for event, label in POD_OUTCOMES.items()},
    )
    yield _counters(
        "rejections", "Containers for which no nodes were found.", "reason", meter.reasons.copy()
    )
    yield _counters(
        "resizes",
        "Memory limits changed while running.",
        "outcome",
        {"done": events["resized"], "refused": events["resize refused"]},
    )
    yield _counter("swept_pods", "Pods whose end only their cgroup told.", meter.swept_pods)
    disagreements = events["sent again"]
    yield _counter("cgroup_disagreements", "Nodes sent again to a cgroup.", disagreements)
    yield _counter("machine_changes", "Changes of nodes and pools.", events["machine changed"])
    yield _counter("synchronizations", "Books made anew.", events[SYNCHRONIZED])
    for name in ("pods", "containers", "adopted", "updated"):
        yield _gauge(
            f"last_synchronize_{name}",
            f"The last Synchronize: {name}.",
            _number(meter.synchronized.get(name)),
        )


def _requests(meter: Meter) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        f"{PREFIX}request_duration_seconds", "From a request to its reply.", labels=["method"]
    )
    bounds = (*(str(bound_s) for bound_s in BUCKETS_S), "+Inf")
    for method, duration in meter.durations.copy().items():
        counts = list(accumulate(duration.counts))
        if counts[-1]:
            durations.add_metric([method], list(zip(bounds, counts, strict=True)), duration.sum_s)
    yield durations
    overruns = sum(meter.events[event] for event in _OVERRUNS)
    yield _counter("request_overruns", "Requests cut short, answered neutrally.", overruns)
    errors = sum(meter.events[event] for event in _ERRORS)
    yield _counter("internal_errors", "Requests that met a bug.", errors)


def _state(state: EngineState) -> Iterator[Metric]:
    live = sum(not h.ended and h.key[1] != POOL for h in state.holders.values())
    assigned = sum(len(containers) for containers in state.books.assignments.values())
    yield _gauge("known_pods", "Pods whose sandbox runs.", len(state.pods))
    yield _gauge("live_containers", "Containers on the books that have not ended.", live)
    yield _gauge("assignments", "Entries in the books, held ones included.", assigned)


def _nodes(nodes: Mapping[int, NodeState]) -> Iterator[Metric]:
    tables = [
        (str(node_id), resource, table)
        for node_id, node in nodes.items()
        for resource, table in node.memory_map.items()
    ]
    figures = {
        "total": "What the node has.",
        "system_reserved": "What is not for pods.",
        "allocatable": "What is for pods.",
        "reserved": "What containers hold.",
        "free": "What is left for containers.",
    }
    for name, text in figures.items():
        metric = GaugeMetricFamily(
            f"{PREFIX}node_{name}_bytes", text, labels=["numa_node", "resource"]
        )
        for node_id, resource, table in tables:
            metric.add_metric([node_id, resource], getattr(table, name))
        yield metric
    assignments = {str(node_id): node.number_of_assignments for node_id, node in nodes.items()}
    yield _gauges("node_assignments", "Blocks on the node.", "numa_node", assignments)
    sizes = {str(node_id): len(node.cells) for node_id, node in nodes.items()}
    yield _gauges("node_group_size", "NUMA nodes in its group.", "numa_node", sizes)


def _unfit(books: State) -> Metric:
    resources = {name for node in books.machine_state.values() for name in node.memory_map}
    missing = dict.fromkeys(sorted(resources), 0)
    for containers in books.assignments.values():
        for blocks in containers.values():
            for block in blocks:
                missing[block.type] = missing.get(block.type, 0) + block.size - block.charged
    return _gauges("unfit_bytes", "What runs and has no room in the books.", "resource", missing)


def _outside(taken: RecordValue) -> Metric:
    metric = GaugeMetricFamily(
        f"{PREFIX}hugepages_outside_bytes",
        "Hugepages that are free by the books and taken by others than pods.",
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
