"""The setting `memoryNodes`: what NUMA nodes without CPUs are for."""

from collections.abc import Mapping

from nri_numamem.config.setting import Group, Kind, Setting, choice, listed
from nri_numamem.config.values import SettingsError, SettingsPath, read_mapping, read_word, show
from nri_numamem.numa.memory_nodes import MemoryNodes, NodeClass, WithoutCpus
from nri_numamem.numa.nodeset import NODE_ID_LIMIT, NodeSet

# ZONE_MOVABLE is a fact of the kernel, which no setting changes.
OVERRIDE_CLASSES = (NodeClass.DRAM, NodeClass.CPULESS)
_CLASS_REMEDY = f"write a class: {', '.join(OVERRIDE_CLASSES)}"


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
            override[node_id] = NodeClass(
                read_word(here, word, OVERRIDE_CLASSES, "class", _CLASS_REMEDY)
            )
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


def _write_override(override: Mapping[int, NodeClass]) -> dict[str, str] | None:
    return {
        str(NodeSet(n for n, found in override.items() if found is each)): each.value
        for each in OVERRIDE_CLASSES
        if each in override.values()
    } or None


_KEYS = (
    Setting(
        "withoutCpus",
        "without_cpus",
        choice(tuple(WithoutCpus), WithoutCpus),
        "What NUMA nodes without CPUs are for (CXL, persistent and high-bandwidth memory, GPU "
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
        ),
        'The class of some NUMA nodes, whatever the kernel shows, such as `{"4-7": dram}`: `dram` '
        "nodes are used, and `withoutCpus` applies to `cpuless` nodes. `nri-numamem inspect` "
        "shows the class of each node. Nodes that the machine does not have yet may be named.",
    ),
)

MEMORY_NODES = Group("memoryNodes", _KEYS, "memory_nodes", MemoryNodes)
