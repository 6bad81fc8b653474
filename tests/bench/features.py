"""Measure a creation with each feature that is off by default, in process, against all off.

Each row of FEATURES is a plugin with its settings, and pods that use the feature. The plugins take
turns in rounds, so that a change of the machine's speed affects all of them. The time before the
reply is from the bytes of the request to those of the reply; the time after it is the next state,
the records and the log. `python -m tests.bench.features` prints the table.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from nri_numamem.engine.records.events import EventName
from nri_numamem.nri import api_pb2 as api
from nri_numamem.observe.metrics.counters import Meter
from tests.bench.report import markdown
from tests.bench.stages import Plugin, creation, end, plugin, pods

PODS, ROUNDS, CREATIONS = 110, 10, 200

Messages = tuple[api.PodSandbox, api.Container]


def _unchanged(pod: api.PodSandbox, container: api.Container) -> None:
    """Leave the pod of the benchmark as it is: Guaranteed, one container, one device."""


def _annotated(name: str, value: str) -> Callable[[api.PodSandbox, api.Container], None]:
    def annotate(pod: api.PodSandbox, _container: api.Container) -> None:
        pod.annotations[name] = value

    return annotate


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, and a pod that uses it."""

    label: str
    settings: Mapping[str, object] = field(default_factory=dict)
    prepare: Callable[[api.PodSandbox, api.Container], None] = _unchanged
    """Change the pod and its container."""
    uses: Callable[[Meter], int] = lambda meter: meter.events[EventName.ADMITTED]
    """How often the feature had an effect; each creation must add to it."""


def _decisions_of(strategy: str) -> Callable[[Meter], int]:
    return lambda meter: meter.strategies.get(strategy, 0)


def _burstable(pod: api.PodSandbox, container: api.Container) -> None:
    linux = pod.linux
    linux.cgroup_parent = linux.cgroup_parent.replace("/kubepods/", "/kubepods/burstable/")
    container.linux.oom_score_adj.value = 3
    pod.annotations["memory.numamem.io"] = "guaranteed"


ALL_OFF = Feature("all off")
FEATURES: Sequence[Feature] = (
    ALL_OFF,
    Feature(
        "`placementStrategy: spread`",
        {"placementStrategy": "spread"},
        uses=_decisions_of("spread"),
    ),
    Feature(
        "`placementStrategy: balanced-with-cpus`",
        {"placementStrategy": "balanced-with-cpus"},
        uses=_decisions_of("balanced-with-cpus"),
    ),
    Feature(
        "`podPlacementStrategies`, annotation `spread`",
        {"podPlacementStrategies": {"allowed": ["spread"]}},
        _annotated("placement-strategy.numamem.io", "spread"),
        _decisions_of("spread"),
    ),
    Feature(
        "`memoryPolicy`, annotation `interleave`",
        {"memoryPolicy": {"modes": ["interleave"], "runtimes": ["runc"]}},
        _annotated("memory-policy.numamem.io", "interleave"),
        lambda meter: meter.events[EventName.MEMORY_POLICY_SET],
    ),
    Feature(
        "`cpuFollowsMemory: require`",
        {"cpuFollowsMemory": "require"},
        uses=lambda meter: meter.events[EventName.CPUS_SET],
    ),
    Feature(
        "`burstablePods`, annotation",
        {"burstablePods": {"evidence": ["annotation"]}},
        _burstable,
        lambda meter: meter.events[EventName.BURSTABLE_PINNED],
    ),
)


@dataclass(frozen=True, slots=True)
class Times:
    """Median seconds of a creation."""

    before_s: float
    after_s: float


def measure(rounds: int = ROUNDS, creations: int = CREATIONS) -> dict[str, Times]:
    """Return the times by label; raise RuntimeError for a feature without an effect."""
    taken: dict[str, list[tuple[int, int]]] = {feature.label: [] for feature in FEATURES}
    for _ in range(rounds):
        for feature in FEATURES:
            taken[feature.label] += _round(feature, creations)
    return {
        label: Times(*(median(column) / 1e9 for column in zip(*spent, strict=True)))
        for label, spent in taken.items()
    }


def _round(feature: Feature, creations: int) -> list[tuple[int, int]]:
    """Return nanoseconds before and after the reply, of each creation on a new plugin."""
    spent: list[tuple[int, int]] = []
    with plugin(feature.settings) as made:
        content = pods()
        for number in range(PODS + creations):
            pod, container = next(content)
            feature.prepare(pod, container)
            made.serve(made.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
            data = made.call("CreateContainer", creation(pod, container))
            if number < PODS:
                made.serve(data)
                continue
            spent.append(_timed(made, data, feature))
            end(made, pod, container)
    return spent


def _timed(made: Plugin, data: bytes, feature: Feature) -> tuple[int, int]:
    meter = made.service.metrics.meter
    uses = feature.uses(meter)
    began_ns = time.perf_counter_ns()
    made.session.receive_data(data)
    replied_ns = time.perf_counter_ns()
    made.after()
    ended_ns = time.perf_counter_ns()
    if feature.uses(meter) == uses:
        raise RuntimeError(f"{feature.label} has no effect on the creation")
    return replied_ns - began_ns, ended_ns - replied_ns


def rows(found: Mapping[str, Times]) -> list[Sequence[str]]:
    """Return the table, with the ratios to all features off."""
    off = found[ALL_OFF.label]
    return [
        ("feature", "before the reply", "to all off", "after it", "to all off"),
        *(
            (
                label,
                f"{each.before_s * 1e6:.0f} µs",
                f"{each.before_s / off.before_s:.2f}",
                f"{each.after_s * 1e6:.0f} µs",
                f"{each.after_s / off.after_s:.2f}",
            )
            for label, each in found.items()
        ),
    ]


if __name__ == "__main__":
    print(markdown(rows(measure())))
