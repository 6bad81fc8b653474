"""The step `merge`: one decision of the Topology Manager over given hints."""

from dataclasses import dataclass

from nri_numamem.config.table import TOPOLOGY_MANAGER_POLICIES
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_choice,
    read_integer,
    read_mapping,
)
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.scenario.values import read_flag, read_list, read_node_set
from nri_numamem.topologymanager import ProviderHints, Topology, TopologyPolicy

# Distances in a merge are only compared, never given to a kernel.
_DISTANCE_MOST = 2**31 - 1


def read_hint(path: SettingsPath, value: object) -> Hint:
    """Return a topology hint; no affinity == "anywhere", not preferred is the default."""
    hint = read_mapping(path, value, ("affinity", "preferred"))
    affinity = hint.get("affinity")
    nodes = None if affinity is None else read_node_set((*path, "affinity"), affinity)
    return Hint(nodes, read_flag((*path, "preferred"), hint.get("preferred"), default=False))


@dataclass(frozen=True, slots=True)
class Merge:
    """One decision of the Topology Manager over given hints."""

    topology: Topology
    numa_nodes: NodeSet
    providers: tuple[ProviderHints, ...]


def read_merge(path: SettingsPath, value: object, default: Topology, nodes: NodeSet) -> Merge:
    """Return a merge; keys that it omits come from `default` and `nodes`."""
    what = read_mapping(
        path,
        value,
        ("policy", "numaNodes", "distances", "preferClosestNUMANodes", "providers"),
    )
    policy = default.policy
    if what.get("policy") is not None:
        here = (*path, "policy")
        policy = TopologyPolicy(read_choice(here, what["policy"], TOPOLOGY_MANAGER_POLICIES))
    machine = nodes
    if what.get("numaNodes") is not None:
        nodes = read_node_set((*path, "numaNodes"), what["numaNodes"])
        if machine and not nodes.issubset(machine):
            problem = f"the machine has no NUMA {format_nodes(nodes - machine)}"
            raise SettingsError((*path, "numaNodes"), problem, f"its nodes are {machine}")
    if not nodes:
        raise SettingsError((*path, "numaNodes"), "no NUMA node", "write the ids of all nodes")
    prefer_closest = read_flag(
        (*path, "preferClosestNUMANodes"),
        what.get("preferClosestNUMANodes"),
        default=default.preferences.prefer_closest,
    )
    distances = default.preferences.distances
    if what.get("distances") is not None:
        distances = _read_distances((*path, "distances"), what["distances"], nodes)
    providers = tuple(
        _read_provider((*path, "providers", index), provider, nodes)
        for index, provider in enumerate(read_list((*path, "providers"), what.get("providers")))
    )
    return Merge(Topology(policy, Preferences(distances, prefer_closest)), nodes, providers)


def _read_distances(path: SettingsPath, value: object, nodes: NodeSet) -> Distances:
    """Return a matrix by node ids, or by the nodes' places where ids leave gaps."""
    rows = [read_list((*path, i), row) for i, row in enumerate(read_list(path, value))]
    largest = max(nodes)
    if len(rows) > largest:
        ids = list(range(len(rows)))
    elif len(rows) == len(nodes):
        ids = list(nodes)
    else:
        problem = f"{len(rows)} rows for the NUMA nodes {nodes}"
        raise SettingsError(path, problem, "write one row for each node")
    found: dict[int, dict[int, int]] = {}
    for index, row in enumerate(rows):
        here = (*path, index)
        if len(row) != len(rows):
            problem = f"{len(row)} distances in a matrix of {len(rows)} rows"
            raise SettingsError(here, problem, "write as many as there are rows")
        found[ids[index]] = {
            ids[column]: read_integer((*here, column), d, least=0, most=_DISTANCE_MOST)
            for column, d in enumerate(row)
        }
    return Distances(found)


def _read_provider(path: SettingsPath, value: object, nodes: NodeSet) -> ProviderHints:
    if value is None:
        return None
    return {
        resource: None
        if hints is None
        else tuple(
            _read_hint((*path, resource, index), hint, nodes)
            for index, hint in enumerate(read_list((*path, resource), hints))
        )
        for resource, hints in read_mapping(path, value).items()
    }


def _read_hint(path: SettingsPath, value: object, nodes: NodeSet) -> Hint:
    hint = read_hint(path, value)
    if hint.affinity is not None and not hint.affinity.issubset(nodes):
        problem = f"numaNodes lacks {format_nodes(hint.affinity - nodes)}"
        raise SettingsError((*path, "affinity"), problem, f"write ids from {nodes}")
    return hint
