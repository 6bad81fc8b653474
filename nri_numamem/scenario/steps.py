"""The steps of a scenario, read from the document.

A step is a mapping with one key, its verb. Pods and containers that a step names must be there;
the removal of an unknown pod or container changes nothing, as in the kubelet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nri_numamem.config.settings import TOPOLOGY_MANAGER_POLICIES
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_choice,
    read_integer,
    read_mapping,
    read_quantity,
    show,
    suggest,
)
from nri_numamem.memorymanager import Container, Hint
from nri_numamem.numa import MEMORY, Distances, NodeSet, Preferences, hugepages_page_size
from nri_numamem.scenario.values import (
    ScenarioPod,
    read_cpus,
    read_flag,
    read_hint,
    read_list,
    read_node_set,
    read_text,
)
from nri_numamem.topologymanager import ProviderHints, Topology, TopologyPolicy

# Uids are long; more of them would hide the one that is meant.
_SUGGESTED = 8
# Distances in a merge are only compared, never given to a kernel.
_DISTANCE_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Admit:
    """Start a pod and all of its containers, in the kubelet's order."""

    uid: str
    cpus: Mapping[str, str] = field(default_factory=dict)
    """Container name -> list of the CPUs that it was allocated."""
    devices: Mapping[str, tuple[NodeSet, ...]] = field(default_factory=dict)
    """Container name -> NUMA nodes of each of its devices."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the memory of a container while it runs."""

    uid: str
    container: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End a container; its pod goes on, and keeps the container's memory for the next one."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Allocate:
    """Let the memory manager allocate for one container, by a given hint."""

    uid: str
    container: str
    hint: Hint


@dataclass(frozen=True, slots=True)
class Hints:
    """Return a container's topology hints; nothing is allocated."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a container from the accounting; with its last container also the pod."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Merge:
    """One decision of the Topology Manager over given hints."""

    topology: Topology
    numa_nodes: NodeSet
    providers: tuple[ProviderHints, ...]


Step: TypeAlias = Admit | Resize | Stop | Allocate | Hints | Remove | Merge


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What steps refer to."""

    pods: Mapping[str, ScenarioPod]
    topology: Topology
    numa_nodes: NodeSet


def read_steps(path: SettingsPath, value: object, around: Surroundings) -> tuple[Step, ...]:
    """Return the steps; SettingsError names the first that cannot be used."""
    return tuple(
        _read_step((*path, index), step, around)
        for index, step in enumerate(read_list(path, value))
    )


def _read_step(path: SettingsPath, value: object, around: Surroundings) -> Step:
    step = read_mapping(path, value, tuple(_READERS))
    if len(step) != 1:
        problem = f"{len(step)} verbs in one step" if step else "an empty step"
        raise SettingsError(path, problem, f"write one of {', '.join(_READERS)}")
    [(verb, what)] = step.items()
    return _READERS[verb]((*path, verb), what, around)


def _read_admit(path: SettingsPath, value: object, around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "cpus", "devices"))
    uid = _read_pod(path, what, around)
    pod = around.pods[uid].pod
    for container in pod.containers:
        _check_page_sizes(path, container)
    names = tuple(container.name for container in pod.containers)
    here = (*path, "cpus")
    cpus = {
        name: str(read_cpus((*here, name), cpulist))
        for name, cpulist in read_mapping(here, what.get("cpus"), names).items()
    }
    there = (*path, "devices")
    devices = {
        name: tuple(
            read_node_set((*there, name, index), nodes)
            for index, nodes in enumerate(read_list((*there, name), each))
        )
        for name, each in read_mapping(there, what.get("devices"), names).items()
    }
    return Admit(uid, cpus, devices)


def _check_page_sizes(path: SettingsPath, container: Container) -> None:
    for resource in container.requests:
        try:
            if resource != MEMORY:
                hugepages_page_size(resource)
        except ValueError as error:
            problem = f"{show(container.name)}: {error}"
            raise SettingsError(path, problem, "use a page size that exists") from error


def _read_resize(path: SettingsPath, value: object, around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "container", "memory"))
    uid, container = _read_container(path, what, around)
    here = (*path, "memory")
    if what.get("memory") is None:
        raise SettingsError(here, "missing", "write the new limit, such as 2Gi")
    return Resize(uid, container, read_quantity(here, what["memory"]))


def _read_stop(path: SettingsPath, value: object, around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "container"))
    return Stop(*_read_container(path, what, around))


def _read_allocate(path: SettingsPath, value: object, around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "container", "hint"))
    uid, container = _read_container(path, what, around)
    return Allocate(uid, container, read_hint((*path, "hint"), what.get("hint")))


def _read_hints(path: SettingsPath, value: object, around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "container"))
    return Hints(*_read_container(path, what, around))


def _read_remove(path: SettingsPath, value: object, _around: Surroundings) -> Step:
    what = read_mapping(path, value, ("pod", "container"))
    uid = read_text((*path, "pod"), what.get("pod"))
    return Remove(uid, read_text((*path, "container"), what.get("container")))


def _read_pod(path: SettingsPath, what: Mapping[str, object], around: Surroundings) -> str:
    here = (*path, "pod")
    uid = read_text(here, what.get("pod"))
    if uid not in around.pods:
        raise SettingsError(here, f"no pod has the uid {show(uid)}", _one_of(uid, around.pods))
    return uid


def _read_container(
    path: SettingsPath, what: Mapping[str, object], around: Surroundings
) -> tuple[str, str]:
    uid = _read_pod(path, what, around)
    here = (*path, "container")
    name = read_text(here, what.get("container"))
    names = {container.name: None for container in around.pods[uid].pod.containers}
    if name not in names:
        problem = f"pod {show(uid)} has no container {show(name)}"
        raise SettingsError(here, problem, _one_of(name, names))
    return uid, name


def _one_of(given: str, allowed: Mapping[str, object]) -> str:
    if not allowed:
        return "describe it under pods"
    remedy = suggest(given, tuple(allowed))
    if len(allowed) <= _SUGGESTED:
        return remedy
    return remedy.partition("allowed: ")[0].strip() or f"give one of the {len(allowed)} there"


def _read_merge(path: SettingsPath, value: object, around: Surroundings) -> Step:
    """Read a merge; what it leaves out is taken from settings and machine."""
    what = read_mapping(
        path,
        value,
        ("policy", "numaNodes", "distances", "preferClosestNUMANodes", "providers"),
    )
    default = around.topology
    policy, nodes = default.policy, around.numa_nodes
    if what.get("policy") is not None:
        here = (*path, "policy")
        policy = TopologyPolicy(read_choice(here, what["policy"], TOPOLOGY_MANAGER_POLICIES))
    if what.get("numaNodes") is not None:
        nodes = read_node_set((*path, "numaNodes"), what["numaNodes"])
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
        _read_provider((*path, "providers", index), provider)
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


def _read_provider(path: SettingsPath, value: object) -> ProviderHints:
    if value is None:
        return None
    return {
        resource: None
        if hints is None
        else tuple(
            read_hint((*path, resource, index), hint)
            for index, hint in enumerate(read_list((*path, resource), hints))
        )
        for resource, hints in read_mapping(path, value).items()
    }


_READERS: Mapping[str, Callable[[SettingsPath, object, Surroundings], Step]] = {
    "admit": _read_admit,
    "resize": _read_resize,
    "stop": _read_stop,
    "allocate": _read_allocate,
    "hints": _read_hints,
    "remove": _read_remove,
    "merge": _read_merge,
}
