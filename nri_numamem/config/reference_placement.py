"""The reference of the settings for placement that the kubelet does not have."""

from nri_numamem.config.burstable_pods import (
    BURSTABLE_PODS,
    EVIDENCE,
    EVIDENCES,
    OOM_SCORE_ADJ,
    OOM_SCORE_ADJ_LEAST,
    OOM_SCORE_ADJ_MOST,
    REQUIRE_FREE_MEMORY,
)
from nri_numamem.config.memory_nodes import (
    MEMORY_NODES,
    OVERRIDE,
    OVERRIDE_CLASSES,
    WITHOUT_CPUS,
    WITHOUT_CPUS_ACTIONS,
)
from nri_numamem.config.memory_policies import (
    AUTO,
    DEFAULTS,
    MAX_NODES,
    MEMORY_POLICY,
    MIN_PER_NODE,
    MODES,
    MOST_NODES,
    NAMESPACES,
    ON_UNSUPPORTED,
    POLICY_MODES,
    RUNTIMES,
    UNSUPPORTED_ACTIONS,
)
from nri_numamem.config.network_hints import NETWORK_HINTS, NETWORK_HINTS_CHOICES
from nri_numamem.config.pod_strategies import ALLOWED, POD_STRATEGIES
from nri_numamem.config.pod_strategies import NAMESPACES as STRATEGY_NAMESPACES
from nri_numamem.config.setting import Setting, choice
from nri_numamem.config.settings import CPU_FOLLOWINGS, PLACEMENT_STRATEGIES
from nri_numamem.numa.memory_policy import MIN_PER_NODE_BYTES
from nri_numamem.numa.quantity import format_quantity

PLACEMENT_SETTINGS = (
    Setting(
        f"{MEMORY_NODES}.{WITHOUT_CPUS}",
        choice(WITHOUT_CPUS_ACTIONS),
        WITHOUT_CPUS_ACTIONS[0],
        "What NUMA nodes without CPUs are for (CXL, persistent and high-bandwidth memory, GPU "
        "memory). `exclude` ignores them: no container is placed there, and they need no "
        "reservation. `lastResort` uses them for containers that fit nowhere else. `use` treats "
        "them as nodes with CPUs. If no node shows CPUs, all nodes are used. "
        "[memory-nodes.md](memory-nodes.md) describes the machines.",
    ),
    Setting(
        f"{MEMORY_NODES}.{OVERRIDE}",
        f"mapping of NUMA nodes to {choice(OVERRIDE_CLASSES)}",
        "{}",
        'The class of some NUMA nodes, whatever the kernel shows, such as `{"4-7": dram}`: `dram` '
        "nodes are used, and `withoutCpus` applies to `cpuless` nodes. `nri-numamem inspect` "
        "shows the class of each node. Nodes that the machine does not have yet may be named.",
    ),
    Setting(
        "placementStrategy",
        choice(PLACEMENT_STRATEGIES),
        PLACEMENT_STRATEGIES[0],
        "Which NUMA node a container gets if several are equally good, by number, distance and the "
        "hints of CPUs and devices. `lowest-ids` takes the first one, as the kubelet does. `pack` "
        "takes the one with the least free memory that suffices, so that other nodes stay free for "
        "large requests. `spread` takes the one with the most, so that containers share the "
        "bandwidth of all nodes. `balanced-with-cpus` takes the one on which the used fractions of "
        "memory and CPU requests differ least afterwards, so that neither is left over alone. The "
        "setting also decides between existing groups of equal size. "
        "[placement-strategies.md](placement-strategies.md) has examples.",
    ),
    Setting(
        f"{POD_STRATEGIES}.{ALLOWED}",
        f"list of {choice(PLACEMENT_STRATEGIES)}",
        "[]",
        "The strategies that a pod's annotation `placement-strategy.numamem.io` may choose instead "
        "of `placementStrategy`. When empty, annotations have no effect.",
    ),
    Setting(
        f"{POD_STRATEGIES}.{STRATEGY_NAMESPACES}",
        "list of namespaces",
        "[]",
        "The namespaces in which annotations may choose a strategy. When empty, all namespaces.",
    ),
    Setting(
        "cpuFollowsMemory",
        choice(CPU_FOLLOWINGS),
        CPU_FOLLOWINGS[0],
        "Whether a container that the plugin pins also gets the CPUs of its NUMA nodes, in "
        "`cpuset.cpus`: with `prefer` while the CPU requests on these nodes are at most their "
        "CPUs, with `require` always. The CPUs are shared, never exclusive. The setting has no "
        "effect beside the kubelet's static CPU manager, and on containers that have CPUs already. "
        "[cpu-follows-memory.md](cpu-follows-memory.md) has the conditions.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{MODES}",
        f"list of {choice(POLICY_MODES)}",
        "[]",
        "The memory policies that a pod's annotation `memory-policy.numamem.io` may choose. When "
        "empty, annotations have no effect. [memory-policies.md](memory-policies.md) describes "
        "annotations, modes and requirements.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{NAMESPACES}",
        "list of namespaces",
        "[]",
        "The namespaces in which annotations may choose a policy. When empty, all namespaces.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{DEFAULTS}",
        "mapping of namespace to mode",
        "{}",
        "The policy of containers without an annotation, whether `modes` lists it or not.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{RUNTIMES}",
        f"list of runtime handlers, or `{AUTO}`",
        AUTO,
        "The runtime handlers whose OCI runtime sets memory policies; `default` stands for pods "
        "without a RuntimeClass. With `auto` the plugin runs `runc features` and `crun features`; "
        "other handlers, and programs that the plugin does not find, as in a container, count as "
        "unsupported.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{ON_UNSUPPORTED}",
        choice(UNSUPPORTED_ACTIONS),
        UNSUPPORTED_ACTIONS[0],
        "What happens to a container whose policy cannot be set, because the runtime does not "
        "support it, or because the annotation is invalid or not allowed: `Ignore` creates it "
        "without the policy; `Reject` fails its creation with the reason.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{MAX_NODES}",
        f"whole number from 0 to {MOST_NODES}",
        "0",
        "The most NUMA nodes that an annotation may request with `interleave:N`, which places a "
        "pinned container on N nodes with an equal part of its memory on each. These nodes are "
        "lost for containers on one node, so with 0 or 1 no annotation may do so. "
        "[memory-policies.md](memory-policies.md#equal-parts-on-n-nodes) has the rules.",
    ),
    Setting(
        f"{MEMORY_POLICY}.{MIN_PER_NODE}",
        "amount",
        format_quantity(MIN_PER_NODE_BYTES),
        "The least memory, hugepages included, that a container with `interleave:N` must request "
        "for each of its N nodes, because a small container closes the nodes for containers on one "
        "node as a large one does. With less the annotation is not allowed. With 0 any amount is.",
    ),
    Setting(
        NETWORK_HINTS,
        choice(NETWORK_HINTS_CHOICES),
        NETWORK_HINTS_CHOICES[0],
        "Whether the NUMA nodes of a container's network interfaces count as hints, as those of "
        "its devices do. `secondary` leaves out the interface of the pod's default route, `all` "
        "takes every interface. [network-hints.md](network-hints.md) describes which interfaces "
        "the plugin finds, and the annotation that switches the hints off.",
    ),
    Setting(
        f"{BURSTABLE_PODS}.{EVIDENCE}",
        f"list of {choice(EVIDENCES)}",
        "[]",
        "What shows that the memory request of a container in a Burstable pod is its limit, so "
        "that the container is pinned like those of Guaranteed pods. `memory-reservation` is its "
        "`memory.low` or `memory.min`, which the kubelet's feature MemoryQoS sets. `annotation` is "
        "the pod's annotation `memory.numamem.io: guaranteed`. `limits` states that in the listed "
        "namespaces each memory limit is also the request. When empty, no such container is "
        "pinned. [burstable-pods.md](burstable-pods.md) describes who needs it, and the risk.",
    ),
    Setting(
        f"{BURSTABLE_PODS}.{NAMESPACES}",
        "list of namespaces",
        "[]",
        "The namespaces whose containers may be pinned. When empty, all namespaces; `limits` in "
        "`evidence` needs a list.",
    ),
    Setting(
        f"{BURSTABLE_PODS}.{OOM_SCORE_ADJ}",
        f"whole number from {OOM_SCORE_ADJ_LEAST} to {OOM_SCORE_ADJ_MOST}",
        "",
        "The `oom_score_adj` of pinned containers, where it is lower than the kubelet's. When a "
        "node is full, the kernel then kills other pods first. Containers of Guaranteed pods have "
        "-997. It needs NRI 0.7 or newer, and a container gets it when it is created.",
    ),
    Setting(
        f"{BURSTABLE_PODS}.{REQUIRE_FREE_MEMORY}",
        "true or false",
        "true",
        "With `true`, a container is pinned only to NUMA nodes on which its memory limit is free "
        "or reclaimable when it is created, since containers that are not pinned use memory there "
        "too. Otherwise it starts unpinned.",
    ),
)
