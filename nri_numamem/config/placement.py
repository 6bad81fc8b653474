"""The settings of placement that need no reader of their own.

`placementStrategy`, `podPlacementStrategies`, `cpuFollowsMemory` and `networkHints`.
"""

from nri_numamem.config.setting import NAMESPACES, Group, Setting, choice, choices
from nri_numamem.numa.cpu_following import CpuFollowing
from nri_numamem.numa.pod_strategies import PodStrategies
from nri_numamem.numa.preferences import Strategy

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
        choices(Strategy, "strategy", f"write a list of strategies: {', '.join(Strategy)}"),
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
