"""The setting `memoryNodes`: what NUMA nodes without CPUs are for."""

from collections.abc import Mapping

from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_choice,
    read_mapping,
    show,
)
from nri_numamem.numa.memory_nodes import MemoryNodes, NodeClass, WithoutCpus
from nri_numamem.numa.nodeset import NODE_ID_LIMIT, NodeSet

MEMORY_NODES = "memoryNodes"
WITHOUT_CPUS = "withoutCpus"
OVERRIDE = "override"

# The first value is the default.
WITHOUT_CPUS_ACTIONS = (WithoutCpus.EXCLUDE, WithoutCpus.LAST_RESORT, WithoutCpus.USE)
# ZONE_MOVABLE is a fact of the kernel, which no setting changes.
OVERRIDE_CLASSES = (NodeClass.DRAM, NodeClass.CPULESS)


def read_memory_nodes(value: object) -> MemoryNodes:
    """Return the setting of a parsed document; raise SettingsError for the first invalid value."""
    path = (MEMORY_NODES,)
    mapping = read_mapping(path, value, (WITHOUT_CPUS, OVERRIDE))
    action = read_choice((*path, WITHOUT_CPUS), mapping.get(WITHOUT_CPUS), WITHOUT_CPUS_ACTIONS)
    override = _read_override((*path, OVERRIDE), mapping.get(OVERRIDE))
    return MemoryNodes(WithoutCpus(action), override)


def memory_nodes_document(settings: MemoryNodes) -> dict[str, object]:
    """Return the document from which read_memory_nodes() makes an equal value."""
    override = {
        str(NodeSet(n for n, found in settings.override.items() if found is each)): each.value
        for each in OVERRIDE_CLASSES
        if each in settings.override.values()
    }
    document: dict[str, object] = {WITHOUT_CPUS: settings.without_cpus.value}
    return {**document, OVERRIDE: override} if override else document


def _read_override(path: SettingsPath, value: object) -> dict[int, NodeClass]:
    """Return node id -> class of a mapping such as {"4-7": dram}; a single id may be a number."""
    if isinstance(value, Mapping):
        value = {str(key) if type(key) is int else key: each for key, each in value.items()}
    override: dict[int, NodeClass] = {}
    for text, word in read_mapping(path, value).items():
        here = (*path, text)
        for node_id in _read_nodes(here, text):
            if node_id in override:
                problem = f"NUMA node {node_id} is in two entries"
                raise SettingsError(here, problem, "keep it in one of them")
            override[node_id] = _read_class(here, word)
    return dict(sorted(override.items()))


def _read_nodes(path: SettingsPath, text: str) -> NodeSet:
    try:
        nodes = NodeSet.parse(text)
    except ValueError:
        nodes = NodeSet()
    if not nodes:
        remedy = f'write ids from 0 to {NODE_ID_LIMIT - 1}, such as "4-7" or "2,4"'
        raise SettingsError(path, f"{show(text)} is not a list of NUMA nodes", remedy)
    return nodes


def _read_class(path: SettingsPath, word: object) -> NodeClass:
    if word is None:
        remedy = f"write a class: {', '.join(OVERRIDE_CLASSES)}"
        raise SettingsError(path, "no class", remedy)
    return NodeClass(read_choice(path, word, OVERRIDE_CLASSES))
