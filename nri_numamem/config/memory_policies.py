"""The setting `memoryPolicy`: which memory policies containers may get."""

from collections.abc import Mapping

from nri_numamem.config.lists import read_list, read_names
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_choice,
    read_integer,
    read_mapping,
    read_quantity,
)
from nri_numamem.numa.memory_policy import (
    MIN_PER_NODE_BYTES,
    MemoryPolicies,
    OnUnsupported,
    PolicyMode,
)
from nri_numamem.numa.quantity import format_quantity

MEMORY_POLICY = "memoryPolicy"
MODES, NAMESPACES, DEFAULTS = "modes", "namespaces", "defaults"
RUNTIMES, ON_UNSUPPORTED = "runtimes", "onUnsupported"
MAX_NODES, MIN_PER_NODE = "maxNodes", "minPerNode"
AUTO = "auto"

MOST_NODES = 1024
"""The kernel has no more NUMA nodes."""

POLICY_MODES = tuple(PolicyMode)
# The first value is the default.
UNSUPPORTED_ACTIONS = (OnUnsupported.IGNORE, OnUnsupported.REJECT)


def read_memory_policies(value: object) -> MemoryPolicies:
    """Return the setting of a parsed document; raise SettingsError for the first invalid value."""
    path = (MEMORY_POLICY,)
    keys = (MODES, NAMESPACES, DEFAULTS, RUNTIMES, ON_UNSUPPORTED, MAX_NODES, MIN_PER_NODE)
    mapping = read_mapping(path, value, keys)
    here = (*path, ON_UNSUPPORTED)
    action = read_choice(here, mapping.get(ON_UNSUPPORTED), UNSUPPORTED_ACTIONS)
    return MemoryPolicies(
        modes=_read_modes((*path, MODES), mapping.get(MODES)),
        namespaces=read_names((*path, NAMESPACES), mapping.get(NAMESPACES), "a namespace"),
        defaults=_read_defaults((*path, DEFAULTS), mapping.get(DEFAULTS)),
        runtimes=_read_runtimes((*path, RUNTIMES), mapping.get(RUNTIMES)),
        on_unsupported=OnUnsupported(action),
        max_nodes=_read_max_nodes((*path, MAX_NODES), mapping.get(MAX_NODES)),
        min_per_node_bytes=_read_min_per_node((*path, MIN_PER_NODE), mapping.get(MIN_PER_NODE)),
    )


def memory_policies_document(settings: MemoryPolicies) -> dict[str, object]:
    """Return the document from which read_memory_policies() makes an equal value."""
    runtimes = AUTO if settings.runtimes is None else list(settings.runtimes)
    least = format_quantity(settings.min_per_node_bytes)
    shows_least = settings.max_nodes or settings.min_per_node_bytes != MIN_PER_NODE_BYTES
    document: dict[str, object] = {
        MODES: [mode.value for mode in settings.modes],
        NAMESPACES: list(settings.namespaces),
        DEFAULTS: {name: mode.value for name, mode in settings.defaults.items()},
        RUNTIMES: runtimes,
        ON_UNSUPPORTED: settings.on_unsupported.value,
        MAX_NODES: settings.max_nodes,
        MIN_PER_NODE: least if shows_least else "",
    }
    return {key: value for key, value in document.items() if value or key == RUNTIMES}


def _read_modes(path: SettingsPath, value: object) -> tuple[PolicyMode, ...]:
    words = read_list(path, value, f"write a list of modes: {', '.join(POLICY_MODES)}")
    found = {_read_mode((*path, index), word) for index, word in enumerate(words)}
    return tuple(mode for mode in POLICY_MODES if mode in found)


def _read_mode(path: SettingsPath, word: object) -> PolicyMode:
    if word is None:
        raise SettingsError(path, "no mode", f"write a mode: {', '.join(POLICY_MODES)}")
    return PolicyMode(read_choice(path, word, POLICY_MODES))


def _read_defaults(path: SettingsPath, value: object) -> Mapping[str, PolicyMode]:
    return {
        name: _read_mode((*path, name), word)
        for name, word in sorted(read_mapping(path, value).items())
    }


def _read_runtimes(path: SettingsPath, value: object) -> tuple[str, ...] | None:
    if value is None or value == AUTO:
        return None
    return read_names(path, value, "a runtime handler")


def _read_max_nodes(path: SettingsPath, value: object) -> int:
    return 0 if value is None else read_integer(path, value, least=0, most=MOST_NODES)


def _read_min_per_node(path: SettingsPath, value: object) -> int:
    return MIN_PER_NODE_BYTES if value is None else read_quantity(path, value)
