"""Random settings of the plugin, and the annotations of pods that go with them."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from nri_numamem.numa import Machine, NodeSet
from tests.sequences.machine import random_reservation, without_cpus

NETWORK_HINTS = ("off", "off", "secondary", "all")
CPU_FOLLOWINGS = ("off", "off", "prefer", "require")
STRATEGIES = ("lowest-ids", "lowest-ids", "pack", "spread", "balanced-with-cpus")

# Simulated hosts do not show the available memory of their nodes.
_BURSTABLE_PODS = {"evidence": ["memory-reservation"], "oomScoreAdj": -500}

ANNOTATION = "memory-policy.numamem.io"
NAMESPACE = "default"
"""The namespace of all pods of a life, but of those in a partition."""
PARTITIONS = ("part-a", "part-b")
"""Names of partitions, and the namespaces of their pods."""
MODES = ("interleave", "bind", "preferred", "preferred-many", "local")
MISSING_MODE = "weighted-interleave"
"""The mode that simulated kernels lack."""
EVEN = "interleave:2"
"""Two nodes with an equal part of the memory of a container on each."""
_WORDS = (*MODES, MISSING_MODE, *4 * (EVEN,), "interlaced")


@dataclass(frozen=True, slots=True)
class Policies:
    """The setting `memoryPolicy`; off in most lives."""

    modes: tuple[str, ...] = ()
    default: str = ""
    """The policy of pods without an annotation."""
    namespaces: tuple[str, ...] = ()
    rejects: bool = False
    runtimes: tuple[str, ...] = field(default=("runc",))
    max_nodes: int = 0
    """The most nodes that an annotation may request."""
    min_per_node: str = "256Mi"
    """The least amount of such a container on each node."""
    pods_in: tuple[str, ...] = (NAMESPACE,)
    """The namespaces of all pods, which have the same policies."""

    @property
    def is_active(self) -> bool:
        return bool(self.modes or self.default)

    def document(self) -> dict[str, object]:
        """Return the value of the setting."""
        found: dict[str, object] = {
            "modes": [*self.modes],
            "namespaces": [*self.namespaces, *(self.pods_in[1:] if self._is_here else ())],
            "runtimes": [*self.runtimes],
            "onUnsupported": "Reject" if self.rejects else "Ignore",
        }
        if self.max_nodes:
            found |= {"maxNodes": self.max_nodes, "minPerNode": self.min_per_node}
        defaults = dict.fromkeys(self.pods_in, self.default)
        return found | ({"defaults": defaults} if self.default else {})

    @property
    def _is_here(self) -> bool:
        return NAMESPACE in self.namespaces

    def choices(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield the annotation, then the default: mode, and whether the settings allow it."""
        if text:
            is_here = not self.namespaces or self._is_here
            mode, _, number = text.partition(":")
            is_allowed = mode in self.modes and int(number or 0) <= self.max_nodes
            yield text, is_here and is_allowed
        if self.default:
            yield self.default, True


@dataclass(frozen=True)
class LifeSettings:
    """The settings of a life that decide about placements."""

    reserved: Mapping[int, int] = field(default_factory=dict)
    """Node id -> bytes of memory reserved for the host."""
    policy: str = "best-effort"
    scope: str = "container"
    unsatisfiable: str = "Reject"
    without_cpus: str = "exclude"
    """memoryNodes.withoutCpus: "exclude", "lastResort" or "use"."""
    strategy: str = "lowest-ids"
    network_hints: str = "off"
    cpu_following: str = "off"
    memory_policies: Policies = field(default_factory=Policies)
    pins_burstable: bool = False
    """Containers of Burstable pods are pinned if their `memory.low` is their limit."""
    partitions: tuple[Mapping[str, object], ...] = ()
    """The setting `partitions`; only drivers that know ``namespace_of`` have it."""

    def excluded(self, machine: Machine) -> NodeSet:
        """Return the nodes on which the plugin must not place anything."""
        return without_cpus(machine) if self.without_cpus == "exclude" else NodeSet()

    @property
    def places_pods(self) -> bool:
        """Whether pods are placed as a whole."""
        return self.scope == "pod" and self.policy != "none"

    def document(self) -> dict[str, object]:
        """Return the settings as in the plugin's configuration."""
        found: dict[str, object] = {
            "topologyManagerPolicy": self.policy,
            "topologyManagerScope": self.scope,
            "whenUnsatisfiable": self.unsatisfiable,
            "memoryNodes": {"withoutCpus": self.without_cpus},
            "placementStrategy": self.strategy,
            "networkHints": self.network_hints,
            "cpuFollowsMemory": self.cpu_following,
            "reservedMemory": [
                {"numaNode": node_id, "limits": {"memory": size_bytes}}
                for node_id, size_bytes in self.reserved.items()
            ],
        }
        if self.partitions:
            found["partitions"] = [*self.partitions]
        if self.memory_policies.is_active:
            found["memoryPolicy"] = self.memory_policies.document()
        return found | ({"burstablePods": _BURSTABLE_PODS} if self.pins_burstable else {})

    def __str__(self) -> str:
        policies = self.memory_policies
        words = [
            f"{self.policy}, {self.scope} scope, {self.unsatisfiable}",
            f"nodes without CPUs: {self.without_cpus}",
            "Burstable pinned" if self.pins_burstable else "Guaranteed only",
            f"memoryPolicy: {policies.document()}" if policies.is_active else "no memory policies",
        ]
        if self.partitions:
            words.append(f"partitions: {[*self.partitions]}")
        return ", ".join(words)


def random_settings(rng: random.Random, machine: Machine) -> LifeSettings:
    """Choose the settings of a life."""
    return LifeSettings(
        random_reservation(rng, machine),
        rng.choice(("none", "best-effort", "best-effort", "restricted", "single-numa-node")),
        rng.choice(("container", "container", "pod")),
        rng.choice(("Reject", "Reject", "RunUnpinned")),
        rng.choice(("exclude", "exclude", "lastResort", "use")),
        rng.choice(STRATEGIES),
        rng.choice(NETWORK_HINTS),
        rng.choice(CPU_FOLLOWINGS),
        _random_policies(rng),
        pins_burstable=rng.random() < 0.4,
    )


def with_partitions(rng: random.Random, machine: Machine, settings: LifeSettings) -> LifeSettings:
    """Return the settings with one or two partitions, which leave nodes to the rest."""
    usable = machine.node_set - settings.excluded(machine)
    ids = rng.sample([*usable], len(usable))
    found: list[Mapping[str, object]] = []
    for name in PARTITIONS[: rng.choice((1, 2))]:
        count = rng.randint(1, max(1, len(usable) // 3))
        if len(ids) <= count:
            break
        nodes, ids = str(NodeSet(ids[:count])), ids[count:]
        found.append(
            {
                "name": name,
                "nodes": nodes,
                "namespaces": [name],
                "exclusive": rng.choice(("none", "guaranteed", "all")),
                "confine": rng.random() < 0.5,
            }
        )
    policies = replace(settings.memory_policies, pods_in=(NAMESPACE, *PARTITIONS))
    return replace(settings, partitions=(*found,), memory_policies=policies)


def namespace_of(pod: str, settings: LifeSettings) -> str:
    """Return the namespace of a pod by the number in its name: that of a partition, or NAMESPACE.

    Two of three pods belong to a partition.
    """
    names = [str(each["name"]) for each in settings.partitions]
    number = int(pod.rpartition("-")[2])
    return names[number % len(names)] if names and number % 3 else NAMESPACE


def _random_policies(rng: random.Random) -> Policies:
    if rng.random() < 0.6:
        return Policies()
    modes = tuple(mode for mode in (*MODES, MISSING_MODE) if rng.random() < 0.7)
    return Policies(
        modes,
        default=rng.choice(("", "", "", *modes)),
        namespaces=rng.choice(((), (), ("elsewhere",), (NAMESPACE,))),
        rejects=rng.random() < 0.4,
        runtimes=rng.choice((("runc",), ("runc",), ("runc",), ("default",))),
        max_nodes=rng.choice((0, 2, 2, 4)),
        min_per_node=rng.choice(("0", "0", "256Mi")),
    )


def random_annotations(rng: random.Random, containers: tuple[str, ...]) -> dict[str, str]:
    """Return the annotations of a pod; none for most pods."""
    found: dict[str, str] = {}
    if rng.random() < 0.4:
        found[ANNOTATION] = rng.choice(_WORDS)
    if rng.random() < 0.2:
        found[f"{ANNOTATION}/container.{rng.choice(containers)}"] = rng.choice(_WORDS)
    return found
