"""Read the parts of a scenario document that describe things: machine, pods, hints.

Each function takes a path in the document and what a YAML or JSON parser found there, and returns
a value or raises ``SettingsError``, which names the place and the remedy. ``steps`` reads the
steps, ``state`` the accounting at the start.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_numamem.config import values
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_integer,
    read_mapping,
    read_quantity,
    show,
)
from nri_numamem.engine.core.annotations import own_annotations
from nri_numamem.kubelet.manifest import (
    CpuAmounts,
    ManifestError,
    cpu_amounts,
    pod_from_manifest,
    qos_class,
)
from nri_numamem.memorymanager import Pod, QosClass
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode, hugepages_page_size
from nri_numamem.numa.idset import NODE_ID_LIMIT
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX

# Counts of pages and blocks: more than any machine has.
COUNT_MOST = 2**31 - 1
# The kernel's distances are bytes; 255 is "unreachable".
DISTANCE_MOST = 255

_NODE_KEYS = ("id", "memory", "hugepages", "cpus", "distances", "movableOnly", "memoryTier")
_PLACE_WORD = re.compile(r"[^.\[\]]+")
_NODE_ID = re.compile(r"\d{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ScenarioPod:
    """A pod of a scenario."""

    pod: Pod
    name: str
    namespace: str
    qos: QosClass
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of the domain numamem.io."""
    labels: Mapping[str, str] = field(default_factory=dict)
    cpus: Mapping[str, CpuAmounts] = field(default_factory=dict)
    """Container name -> its CPU request and limit; none for a container that is missing."""


def read_list(path: SettingsPath, value: object) -> list[object]:
    """Return a list; null is an empty one."""
    return [] if value is None else values.read_list(path, value, "write [...] or - lines")


def read_text(path: SettingsPath, value: object) -> str:
    """Return a text that is not empty."""
    if isinstance(value, str) and value:
        return value
    problem = "missing" if value is None else f"{show(value)} is not a text"
    raise SettingsError(path, problem, "write a name, in quotes if it looks like a number")


def read_flag(path: SettingsPath, value: object, *, default: bool) -> bool:
    """Return true or false; null gives the default."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise SettingsError(path, f"{show(value)} is not a boolean", "write true or false")


def read_node_set(path: SettingsPath, value: object) -> NodeSet:
    """Return a list of NUMA node ids as a set."""
    return NodeSet(
        read_integer((*path, index), node_id, least=0, most=NODE_ID_LIMIT - 1)
        for index, node_id in enumerate(read_list(path, value))
    )


def read_machine(path: SettingsPath, value: object) -> Machine:
    """Return the machine of `machine`: its nodes in any order, ids not necessarily contiguous."""
    here = (*path, "nodes")
    entries = read_list(here, read_mapping(path, value, ("nodes",)).get("nodes"))
    if not entries:
        raise SettingsError(here, "no NUMA node", "write - {id: 0, memory: 64Gi}")
    nodes: dict[int, NumaNode] = {}
    for index, entry in enumerate(entries):
        node = _read_node((*here, index), entry)
        if node.node_id in nodes:
            raise SettingsError((*here, index, "id"), f"{node.node_id} is given twice", "change it")
        nodes[node.node_id] = node
    for index, entry in enumerate(entries):
        _check_distances((*here, index, "distances"), entry, nodes)
    return Machine(tuple(node for _, node in sorted(nodes.items())))


def _check_distances(path: SettingsPath, entry: object, nodes: Mapping[int, NumaNode]) -> None:
    node = read_mapping(path[:-1], entry)
    for node_id in read_by_node(path, node.get("distances")):
        if node_id not in nodes:
            problem = f"the machine has no NUMA node {node_id}"
            remedy = f"give distances to its nodes, {NodeSet(nodes)}"
            raise SettingsError((*path, str(node_id)), problem, remedy)


def _read_node(path: SettingsPath, value: object) -> NumaNode:
    node = read_mapping(path, value, _NODE_KEYS)
    distances = {
        node_id: read_integer((*path, "distances", str(node_id)), d, least=1, most=DISTANCE_MOST)
        for node_id, d in read_by_node((*path, "distances"), node.get("distances")).items()
    }
    return NumaNode(
        read_integer((*path, "id"), node.get("id"), least=0, most=NODE_ID_LIMIT - 1),
        _read_memory((*path, "memory"), node.get("memory")),
        _read_pools((*path, "hugepages"), node.get("hugepages")),
        read_cpus((*path, "cpus"), node.get("cpus")),
        distances,
        read_flag((*path, "movableOnly"), node.get("movableOnly"), default=False),
        _read_tier((*path, "memoryTier"), node.get("memoryTier")),
    )


def _read_tier(path: SettingsPath, value: object) -> int | None:
    return None if value is None else read_integer(path, value, least=0, most=COUNT_MOST)


def _read_memory(path: SettingsPath, value: object) -> int:
    if value is None:
        raise SettingsError(path, "missing", "write an amount such as 64Gi; 0 for none")
    return read_quantity(path, value)


def _read_pools(path: SettingsPath, value: object) -> dict[int, int]:
    """Return page size in bytes -> pages."""
    pools: dict[int, int] = {}
    for key, count in _with_text_keys(path, value).items():
        here = (*path, key)
        try:
            size_bytes = hugepages_page_size(f"{HUGEPAGES_PREFIX}{key}")
        except ValueError as error:
            raise SettingsError(here, str(error), "write a page size such as 2Mi") from error
        if size_bytes in pools:
            raise SettingsError(here, "this page size is given twice", "keep one of the two")
        pools[size_bytes] = read_integer(here, count, least=0, most=COUNT_MOST)
    return dict(sorted(pools.items()))


def read_cpus(path: SettingsPath, value: object) -> CpuSet:
    """Return the CPUs of a list such as 0-15,32; a single id may be a number."""
    text = "" if value is None else str(value) if type(value) is int else value
    try:
        return CpuSet.parse(text if isinstance(text, str) else "-")
    except ValueError as error:
        problem = f"{show(value)} is not a list of CPUs"
        raise SettingsError(path, problem, "write one such as 0-15,32") from error


def _with_text_keys(path: SettingsPath, value: object) -> Mapping[str, object]:
    """Return a mapping whose keys may also be written as whole numbers."""
    if not isinstance(value, Mapping):
        return read_mapping(path, value)
    keys = {key: str(key) if type(key) is int else key for key in value}
    if len(set(keys.values())) < len(keys):
        raise SettingsError(path, "a key is given as a number and as a text", "keep one of the two")
    return read_mapping(path, {keys[key]: each for key, each in value.items()})


def read_by_node(path: SettingsPath, value: object) -> dict[int, object]:
    """Return a mapping from NUMA node ids, which JSON has to write as texts."""
    found: dict[int, object] = {}
    for key, each in _with_text_keys(path, value).items():
        if _NODE_ID.fullmatch(key) is None or int(key) >= NODE_ID_LIMIT or int(key) in found:
            problem = "not the id of a NUMA node, or given twice"
            raise SettingsError((*path, key), problem, f"write 0 to {NODE_ID_LIMIT - 1}")
        found[int(key)] = each
    return found


def read_pods(path: SettingsPath, value: object) -> dict[str, ScenarioPod]:
    """Return the pods by uid."""
    pods: dict[str, ScenarioPod] = {}
    for index, manifest in enumerate(read_list(path, value)):
        here = (*path, index)
        pod = read_pod(here, manifest)
        uid = pod.pod.uid
        if uid in pods:
            problem = f"another pod has the uid {show(uid)}"
            raise SettingsError((*here, "metadata", "uid"), problem, "give each its own")
        pods[uid] = pod
    return pods


def read_pod(path: SettingsPath, manifest: object) -> ScenarioPod:
    """Return the pod of a manifest."""
    top = read_mapping(path, manifest)
    try:
        pod = pod_from_manifest(top)
        qos = qos_class(top)
        cpus = cpu_amounts(top)
    except ManifestError as error:
        place, _, problem = str(error).partition(": ")
        inside = (int(w) if w.isdecimal() else w for w in _PLACE_WORD.findall(place))
        remedy = "correct it there, as kubectl get pod -o yaml prints pods"
        raise SettingsError((*path, *inside), problem, remedy) from error
    metadata = read_mapping((*path, "metadata"), top.get("metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    annotations, labels = (
        _read_texts((*path, "metadata", key), metadata.get(key))
        for key in ("annotations", "labels")
    )
    return ScenarioPod(
        pod,
        str(name or pod.uid),
        str(namespace or "default"),
        qos,
        own_annotations(annotations),
        labels,
        cpus,
    )


def _read_texts(path: SettingsPath, value: object) -> dict[str, str]:
    """Return a pod's annotations or labels; the API server accepts only texts as their values."""
    found: dict[str, str] = {}
    for name, text in read_mapping(path, value).items():
        if not isinstance(text, str):
            raise SettingsError((*path, name), f"{show(text)} is not a text", "write it in quotes")
        found[name] = text
    return found
