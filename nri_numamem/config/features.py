"""The settings of features that the kubelet lacks, except `memoryPolicy`."""

import re
from collections.abc import Mapping

from nri_numamem.config.setting import (
    AMOUNT,
    BOOLEAN,
    NAMESPACES,
    Group,
    Kind,
    Setting,
    choice,
    choices,
    integer,
    listed,
    words_of,
)
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_mapping,
    read_node_set,
    read_quantity,
    read_word,
    show,
)
from nri_numamem.engine.features.residency.setting import HeadRoomLimit, Residency
from nri_numamem.memorymanager.burstable import (
    GUARANTEED_OOM_SCORE_ADJ,
    BurstablePods,
    Evidence,
)
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import CpuFollowing
from nri_numamem.numa.memory_nodes import MemoryNodes, NodeClass, WithoutCpus
from nri_numamem.numa.preferences import PodStrategies, Strategy

HINTS_OFF, HINTS_SECONDARY, HINTS_ALL = "off", "secondary", "all"

PLACEMENT_STRATEGY = Setting(
    "placementStrategy",
    "placement_strategy",
    choice(tuple(Strategy)),
    "Which NUMA node a container gets if several are equally good, by number, distance and the "
    "hints of CPUs and devices. `lowest-ids` takes the first one, as the kubelet does. `pack` "
    "takes the one with the least free memory that suffices, so that other nodes stay free for "
    "large requests. `spread` takes the one with the most, so that containers share the "
    "bandwidth of all nodes. `balanced-with-cpus` takes the one on which the used fractions of "
    "memory and CPU requests differ least afterwards, so that neither is left over alone. The "
    "setting also decides between existing groups of equal size. "
    "[placement-strategies.md](placement-strategies.md) has examples.",
)

_POD_STRATEGY_KEYS = (
    Setting(
        "allowed",
        "allowed",
        choices(Strategy, "strategy"),
        "The strategies that a pod's annotation `placement-strategy.numamem.io` may choose instead "
        "of `placementStrategy`. When empty, annotations have no effect.",
    ),
    Setting(
        "namespaces",
        "namespaces",
        NAMESPACES,
        "The namespaces in which annotations may choose a strategy. When empty, all namespaces.",
    ),
)

POD_STRATEGIES = Group(
    "podPlacementStrategies", _POD_STRATEGY_KEYS, "pod_strategies", PodStrategies
)

CPU_FOLLOWS_MEMORY = Setting(
    "cpuFollowsMemory",
    "cpu_follows_memory",
    choice(tuple(CpuFollowing)),
    "Whether a container that the plugin pins also gets the CPUs of its NUMA nodes, in "
    "`cpuset.cpus`: with `prefer` while the CPU requests on these nodes are at most their "
    "CPUs, with `require` always. The CPUs are shared, never exclusive. The setting has no "
    "effect beside the kubelet's static CPU manager, and on containers that have CPUs already. "
    "[cpu-follows-memory.md](cpu-follows-memory.md) has the conditions.",
)

NETWORK_HINTS = Setting(
    "networkHints",
    "network_hints",
    choice((HINTS_OFF, HINTS_SECONDARY, HINTS_ALL)),
    "Whether the NUMA nodes of a container's network interfaces count as hints, as those of "
    "its devices do. `secondary` leaves out the interface of the pod's default route, `all` "
    "takes every interface. [network-hints.md](network-hints.md) describes which interfaces "
    "the plugin finds, and the annotation that switches the hints off.",
)


# ZONE_MOVABLE is a fact of the kernel, which no setting changes.
OVERRIDE_CLASSES = (NodeClass.DRAM, NodeClass.CPULESS)


def _read_override(path: SettingsPath, value: object) -> dict[int, NodeClass]:
    """Return node id -> class of a mapping such as {"4-7": dram}; a single id may be a number."""
    if isinstance(value, Mapping):
        value = {str(key) if type(key) is int else key: each for key, each in value.items()}
    override: dict[int, NodeClass] = {}
    for text, word in read_mapping(path, value).items():
        here = (*path, text)
        for node_id in read_node_set(here, text):
            if node_id in override:
                problem = f"NUMA node {node_id} is in two entries"
                raise SettingsError(here, problem, "keep it in one of them")
            override[node_id] = NodeClass(read_word(here, word, OVERRIDE_CLASSES, "class"))
    return dict(sorted(override.items()))


def _write_override(override: Mapping[int, NodeClass]) -> dict[str, str] | None:
    return {
        str(NodeSet(n for n, found in override.items() if found is each)): each.value
        for each in OVERRIDE_CLASSES
        if each in override.values()
    } or None


_MEMORY_NODES_KEYS = (
    Setting(
        "withoutCpus",
        "without_cpus",
        choice(tuple(WithoutCpus), WithoutCpus),
        "The use of NUMA nodes without CPUs (CXL, persistent and high-bandwidth memory, GPU "
        "memory). `exclude` ignores them: no container is placed there, and they need no "
        "reservation. `lastResort` uses them for containers that fit nowhere else. `use` treats "
        "them as nodes with CPUs. If no node shows CPUs, all nodes are used. "
        "[memory-nodes.md](memory-nodes.md) describes the machines.",
    ),
    Setting(
        "override",
        "override",
        Kind(
            f"mapping of NUMA nodes to {listed(OVERRIDE_CLASSES)}",
            _read_override,
            _write_override,
            "{}",
            words_of(OVERRIDE_CLASSES),
        ),
        'The class of some NUMA nodes, regardless of the kernel, such as `{"4-7": dram}`: `dram` '
        "nodes are used, and `withoutCpus` applies to `cpuless` nodes. `nri-numamem inspect` "
        "shows the class of each node. Nodes that the machine does not have yet may be named.",
    ),
)

MEMORY_NODES = Group("memoryNodes", _MEMORY_NODES_KEYS, "memory_nodes", MemoryNodes)


OOM_SCORE_ADJ_LEAST = GUARANTEED_OOM_SCORE_ADJ + 1
"""Guaranteed pods end last."""
OOM_SCORE_ADJ_MOST = 999
"""The kubelet's highest value of a Burstable container."""


def _check_namespaces(path: SettingsPath, found: BurstablePods) -> None:
    if Evidence.LIMITS in found.evidence and not found.namespaces:
        problem = f"{Evidence.LIMITS} in evidence is a statement about listed namespaces"
        raise SettingsError((*path, "namespaces"), problem, "list the namespaces")


_BURSTABLE_KEYS = (
    Setting(
        "evidence",
        "evidence",
        choices(Evidence, "evidence"),
        "Evidence that the memory request of a container in a Burstable pod equals its limit, so "
        "that the container is pinned like those of Guaranteed pods. `memory-reservation` is its "
        "`memory.low` or `memory.min`, which the kubelet's feature MemoryQoS sets. `annotation` is "
        "the pod's annotation `memory.numamem.io: guaranteed`. `limits` states that in the listed "
        "namespaces each memory limit is also the request. When empty, no such container is "
        "pinned. [burstable-pods.md](burstable-pods.md) describes who needs it, and the risk.",
    ),
    Setting(
        "namespaces",
        "namespaces",
        NAMESPACES,
        "The namespaces whose containers may be pinned. When empty, all namespaces; `limits` in "
        "`evidence` needs a list.",
    ),
    Setting(
        "oomScoreAdj",
        "oom_score_adj",
        integer(OOM_SCORE_ADJ_LEAST, OOM_SCORE_ADJ_MOST),
        "The `oom_score_adj` of pinned containers, where it is lower than the kubelet's. When a "
        "node is full, the kernel then kills other pods first. Containers of Guaranteed pods have "
        "-997. It needs NRI 0.7 or newer, and a container gets it when it is created.",
    ),
    Setting(
        "requireFreeMemory",
        "require_free_memory",
        BOOLEAN,
        "With `true`, a container is pinned only to NUMA nodes on which its memory limit is free "
        "or reclaimable when it is created, since containers that are not pinned use memory there "
        "too. Otherwise it starts unpinned.",
    ),
)

BURSTABLE_PODS = Group(
    "burstablePods", _BURSTABLE_KEYS, "burstable_pods", BurstablePods, _check_namespaces
)


INTERVAL_MOST_S = 3600
_PERCENTAGE = re.compile(r"([1-9]\d?)%", re.ASCII)


def _read_limit(path: SettingsPath, value: object) -> HeadRoomLimit:
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return HeadRoomLimit(percent=int(match[1]))
    try:
        size_bytes = read_quantity(path, value)
    except SettingsError:
        size_bytes = 0
    if size_bytes <= 0:
        remedy = "write an amount such as 2Gi, or a percentage from 1% to 99%"
        raise SettingsError(path, f"{show(value)} is not a limit", remedy)
    return HeadRoomLimit(size_bytes=size_bytes)


def _write_limit(limit: HeadRoomLimit | None) -> str | None:
    if limit is None:
        return None
    return f"{limit.percent}%" if limit.percent else str(limit.size_bytes)


def _check_interval(path: SettingsPath, found: Residency) -> None:
    for key, is_set in (
        ("headRoom", found.head_room),
        ("perContainerMetrics", found.per_container),
    ):
        if is_set and not found.interval_s:
            remedy = "set residency.intervalSeconds, such as 60"
            raise SettingsError((*path, key), "no effect without intervalSeconds", remedy)


_RESIDENCY_KEYS = (
    Setting(
        "intervalSeconds",
        "interval_s",
        integer(0, INTERVAL_MOST_S, f", at most {INTERVAL_MOST_S}"),
        "The interval in which the plugin reads once where the pages of each managed container "
        "are, for metrics and alarms. With 0 it does not. See [residency.md](residency.md).",
    ),
    Setting(
        "perContainerMetrics",
        "per_container",
        BOOLEAN,
        "With `true` the metrics have one series per container, NUMA node and kind of page.",
    ),
    Setting(
        "remotePercent",
        "remote_percent",
        integer(1, 100),
        "The plugin writes `remote_memory_found` if more than this share of a container's memory, "
        "page cache excepted, is on NUMA nodes other than its own in two rounds.",
    ),
    Setting(
        "headRoom",
        "head_room",
        Kind(
            "amount, or percentage of the nodes' memory", _read_limit, _write_limit, schema=AMOUNT
        ),
        "The plugin writes `head_room_low` if less than this would be available on NUMA nodes "
        "after their containers allocated all memory that is assigned to them. When unset, it "
        "does not check this.",
    ),
)

RESIDENCY = Group("residency", _RESIDENCY_KEYS, "residency", Residency, _check_interval)
