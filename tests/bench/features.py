"""Measure a creation with each feature that is off by default, in process, against all off.

Each row of FEATURES is a plugin with its settings, and pods that use the feature. The plugins take
turns in rounds, so that a change of the machine's speed affects all of them. The times of
RunPodSandbox and CreateContainer are from the bytes of the request to those of the reply; the time
after the creation's reply is the next state, the records and the log.
`python -m tests.bench.features` prints the table.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from nri_numamem.daemon.namespace_reader import HelperProcess
from nri_numamem.daemon.network_hints import NamespaceAccess, NetworkHints
from nri_numamem.daemon.service import Service
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.features.claims.events import ClaimPrepared
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.numa import MEMORY
from nri_numamem.observe.metrics.counters import Meter
from tests.bench.report import markdown
from tests.bench.stages import Plugin, creation, end, plugin, pods
from tests.host_files import HostFiles
from tests.laboratory import api_pb2 as api

PODS, ROUNDS, CREATIONS = 110, 10, 200

INTERFACE, INTERFACE_NODE = "net1", 2
CLAIMS, CLAIM_NODES, CLAIM_BYTES = 20, 4, 64 << 20
LABELS = {"app.kubernetes.io/managed-by": "statefulset-controller"}

# For what another thread does between two requests.
_WAIT_S = 60.0


def _unchanged(pod: api.PodSandbox, container: api.Container) -> None:
    """Leave the pod of the benchmark as it is: Guaranteed, one container, one device."""


def _annotated(name: str, value: str) -> Callable[[api.PodSandbox, api.Container], None]:
    def annotate(pod: api.PodSandbox, _container: api.Container) -> None:
        pod.annotations[name] = value

    return annotate


def _as_it_is(_service: Service, _files: HostFiles) -> None:
    """Leave the service and the host as they are."""


def _at_once(_made: Plugin, _pod: api.PodSandbox) -> None:
    """Do not wait between RunPodSandbox and CreateContainer."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature, and a pod that uses it."""

    label: str
    settings: Mapping[str, object] = field(default_factory=dict)
    prepare: Callable[[api.PodSandbox, api.Container], None] = _unchanged
    """Change the pod and its container."""
    uses: Callable[[Meter], int] = lambda meter: meter.events["admitted"]
    """How often the feature had an effect; each creation must add to it."""
    prepare_host: Callable[[Service, HostFiles], None] = _as_it_is
    """Change the service and the host before the start."""
    wait: Callable[[Plugin, api.PodSandbox], None] = _at_once
    """Wait after RunPodSandbox until the container can be created."""


def _decisions_of(strategy: str) -> Callable[[Meter], int]:
    return lambda meter: meter.strategies.get(strategy, 0)


def _burstable(pod: api.PodSandbox, container: api.Container) -> None:
    linux = pod.linux
    linux.cgroup_parent = linux.cgroup_parent.replace("/kubepods/", "/kubepods/burstable/")
    container.linux.oom_score_adj.value = 3
    pod.annotations["memory.numamem.io"] = "guaranteed"


def _with_host_interface(_service: Service, files: HostFiles) -> None:
    files.add_network_device(INTERFACE, INTERFACE_NODE)


def _moved_into_container(_pod: api.PodSandbox, container: api.Container) -> None:
    container.linux.net_devices[INTERFACE].name = INTERFACE


class _Helper(HelperProcess):
    """Finds one interface in each network namespace at once, without a process."""

    def __init__(self) -> None: ...

    def wait(self) -> None:
        """Do nothing."""

    def request(self, _path: str) -> Mapping[str, object]:
        return {"interfaces": [[INTERFACE, str(INTERFACE_NODE), False]]}

    def close(self) -> None:
        """Do nothing."""


def _with_helper(service: Service, files: HostFiles) -> None:
    service.host_reader.network_hints = NetworkHints(
        files.roots, lambda: service.engine, service.emit, NamespaceAccess(_Helper())
    )


def _until_read(made: Plugin, pod: api.PodSandbox) -> None:
    """Wait until the pod's network namespace is read, as it is long before the container comes."""
    sandbox = PodSandbox(pod.id, pod.uid, pod.namespace, pod.name, pod.linux.cgroup_parent)
    path = next(each.path for each in pod.linux.namespaces if each.type == "network")
    end_s = time.monotonic() + _WAIT_S
    while time.monotonic() < end_s:
        found = made.service.host_reader.network_hints.read(sandbox, (), path)
        if found is not None and not found.obstacle:
            return
        time.sleep(0)
    raise RuntimeError("the network namespace of a pod is not read")


def _with_claims(made: Plugin, _pod: api.PodSandbox) -> None:
    """Charge claims, unless there are some."""
    engine = made.service.engine
    assert engine is not None
    for number in range(0 if engine.state.claims else CLAIMS):
        amounts = {number % CLAIM_NODES: {MEMORY: CLAIM_BYTES}}
        engine.apply(ClaimPrepared(Claim(f"claim-{number}", "default", "upf", {"mem": amounts})))


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
        "`partitions`, one by labels and a closed one",
        {
            "partitions": [
                {"name": "pods", "nodes": "0-5", "selector": LABELS, "exclusive": "guaranteed"},
                {"name": "other", "nodes": "6", "namespaces": ["none"], "exclusive": "all"},
            ]
        },
    ),
    Feature(
        "`memoryPolicy`, annotation `interleave`",
        {"memoryPolicy": {"modes": ["interleave"], "runtimes": ["runc"]}},
        _annotated("memory-policy.numamem.io", "interleave"),
        lambda meter: meter.events["memory_policy_set"],
    ),
    Feature(
        "`cpuFollowsMemory: require`",
        {"cpuFollowsMemory": "require"},
        uses=lambda meter: meter.events["cpus_set"],
    ),
    Feature(
        "`burstablePods`, annotation",
        {"burstablePods": {"evidence": ["annotation"]}},
        _burstable,
        lambda meter: meter.events["burstable_pinned"],
    ),
    Feature(
        "`networkHints`, a device of the host",
        {"networkHints": "secondary"},
        _moved_into_container,
        lambda meter: meter.events["network_hints_found"],
        _with_host_interface,
    ),
    Feature(
        "`networkHints`, the pod's network namespace",
        {"networkHints": "secondary"},
        uses=lambda meter: meter.events["network_hints_found"],
        prepare_host=_with_helper,
        wait=_until_read,
    ),
    # The pods have no claim; others have.
    Feature("`claims`, 20 of them", {"claims": {"enabled": True}}, wait=_with_claims),
    Feature(
        "`claims.sharePercent: 20`, 20 claims",
        {"claims": {"enabled": True, "sharePercent": 20}},
        wait=_with_claims,
    ),
    # Its job runs between requests and is not in these times.
    Feature("`residency`", {"residency": {"intervalSeconds": 60}}),
)


class Times(NamedTuple):
    """Median seconds of a pod's start and of a creation."""

    sandbox_s: float
    before_s: float
    after_s: float


def measure(rounds: int = ROUNDS, creations: int = CREATIONS) -> dict[str, Times]:
    """Return the times by label; raise RuntimeError for a feature without an effect."""
    taken: dict[str, list[tuple[int, int, int]]] = {feature.label: [] for feature in FEATURES}
    for _ in range(rounds):
        for feature in FEATURES:
            taken[feature.label] += _round(feature, creations)
    return {
        label: Times(*(median(column) / 1e9 for column in zip(*spent, strict=True)))
        for label, spent in taken.items()
    }


def _round(feature: Feature, creations: int) -> list[tuple[int, int, int]]:
    """Return nanoseconds of RunPodSandbox, and before and after the reply to CreateContainer.

    They are of each creation on a new plugin.
    """
    spent: list[tuple[int, int, int]] = []
    with plugin(feature.settings, feature.prepare_host) as made:
        content = pods()
        for number in range(PODS + creations):
            pod, container = next(content)
            feature.prepare(pod, container)
            sandbox_ns = _started(made, pod)
            feature.wait(made, pod)
            data = made.call("CreateContainer", creation(pod, container))
            if number < PODS:
                made.serve(data)
                continue
            spent.append((sandbox_ns, *_timed(made, data, feature)))
            end(made, pod, container)
    return spent


def _started(made: Plugin, pod: api.PodSandbox) -> int:
    """Start a pod; return the nanoseconds to the reply."""
    data = made.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))
    began_ns = time.perf_counter_ns()
    made.session.receive_data(data)
    replied_ns = time.perf_counter_ns()
    made.after()
    return replied_ns - began_ns


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
    columns = ("RunPodSandbox", "CreateContainer", "after its reply")
    return [
        ("feature", *(cell for column in columns for cell in (column, "to all off"))),
        *(
            (label, *(cell for pair in zip(each, off, strict=True) for cell in _cells(*pair)))
            for label, each in found.items()
        ),
    ]


def _cells(spent_s: float, off_s: float) -> tuple[str, str]:
    return f"{spent_s * 1e6:.0f} µs", f"{spent_s / off_s:.2f}"


if __name__ == "__main__":
    print(markdown(rows(measure())))
