"""The setting `memoryPolicy`: which memory policies containers may get."""

from collections.abc import Mapping

from nri_numamem.config.setting import (
    AMOUNT,
    NAMESPACES,
    TEXTS,
    Group,
    Kind,
    Setting,
    choice,
    choices,
    integer,
    words_of,
)
from nri_numamem.config.values import (
    SettingsPath,
    read_mapping,
    read_names,
    read_quantity,
    read_word,
)
from nri_numamem.numa.memory_policy import (
    MIN_PER_NODE_BYTES,
    MemoryPolicies,
    OnUnsupported,
    PolicyMode,
)
from nri_numamem.numa.quantity import format_quantity

AUTO = "auto"

MOST_NODES = 1024
"""The kernel has no more NUMA nodes."""


def _read_defaults(path: SettingsPath, value: object) -> Mapping[str, PolicyMode]:
    modes = tuple(PolicyMode)
    return {
        name: PolicyMode(read_word((*path, name), word, modes, "mode"))
        for name, word in sorted(read_mapping(path, value).items())
    }


def _write_defaults(defaults: Mapping[str, PolicyMode]) -> dict[str, str] | None:
    return {name: mode.value for name, mode in defaults.items()} or None


def _read_runtimes(path: SettingsPath, value: object) -> tuple[str, ...] | None:
    return None if value == AUTO else read_names(path, value, "a runtime handler")


def _write_runtimes(runtimes: tuple[str, ...] | None) -> object:
    return AUTO if runtimes is None else list(runtimes)


def _shows_least(policies: MemoryPolicies) -> bool:
    return policies.max_nodes > 0 or policies.min_per_node_bytes != MIN_PER_NODE_BYTES


_KEYS = (
    Setting(
        "modes",
        "modes",
        choices(PolicyMode, "mode"),
        "The memory policies that a pod's annotation `memory-policy.numamem.io` may choose. When "
        "empty, annotations have no effect. [memory-policies.md](memory-policies.md) describes "
        "annotations, modes and requirements.",
    ),
    Setting(
        "namespaces",
        "namespaces",
        NAMESPACES,
        "The namespaces in which annotations may choose a policy. When empty, all namespaces.",
    ),
    Setting(
        "defaults",
        "defaults",
        Kind(
            "mapping of namespace to mode",
            _read_defaults,
            _write_defaults,
            "{}",
            words_of(PolicyMode),
        ),
        "The policy of containers without an annotation, whether `modes` lists it or not.",
    ),
    Setting(
        "runtimes",
        "runtimes",
        Kind(
            f"list of runtime handlers, or `{AUTO}`",
            _read_runtimes,
            _write_runtimes,
            schema={"anyOf": [{"const": AUTO}, TEXTS]},
        ),
        "The runtime handlers whose OCI runtime sets memory policies; `default` stands for pods "
        "without a RuntimeClass. With `auto` the plugin runs `runc features` and `crun features`; "
        "other handlers, and programs that the plugin does not find, as in a container, count as "
        "unsupported.",
    ),
    Setting(
        "onUnsupported",
        "on_unsupported",
        choice(tuple(OnUnsupported), OnUnsupported),
        "What happens to a container whose policy cannot be set, because the runtime does not "
        "support it, or because the annotation is invalid or not allowed: `Ignore` creates it "
        "without the policy; `Reject` fails its creation with the reason.",
    ),
    Setting(
        "maxNodes",
        "max_nodes",
        integer(0, MOST_NODES),
        "The most NUMA nodes that an annotation may request with `interleave:N`, which places a "
        "pinned container on N nodes with an equal part of its memory on each. These nodes are "
        "lost for containers on one node, so with 0 or 1 no annotation may do so. "
        "[memory-policies.md](memory-policies.md#equal-parts-on-n-nodes) has the rules.",
        is_shown=lambda policies: policies.max_nodes > 0,
    ),
    Setting(
        "minPerNode",
        "min_per_node_bytes",
        Kind("amount", read_quantity, format_quantity, schema=AMOUNT),
        "The least memory, hugepages included, that a container with `interleave:N` must request "
        "for each of its N nodes, because a small container closes the nodes for containers on one "
        "node as a large one does. With less, the annotation is not allowed; 0 allows any amount.",
        is_shown=_shows_least,
    ),
)

MEMORY_POLICY = Group("memoryPolicy", _KEYS, "memory_policies", MemoryPolicies)
