"""The containers that hold what a refused request lacks.

For the record only: the text of a refusal has other readers, and names no other pods.
"""

from collections.abc import Iterable

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.common import HolderShown
from nri_numamem.memorymanager.holder import HolderKey, container_name
from nri_numamem.numa import NodeSet

# The largest holders; more do not help anybody to choose.
LIMIT = 16


def holders_of(state: EngineState, uid: str, resources: Iterable[str]) -> tuple[HolderShown, ...]:
    """Return the largest holders of the resources, without those of pod `uid`.

    The largest one comes first.
    """
    wanted = frozenset(resources)
    found: list[tuple[int, HolderKey, NodeSet, dict[str, int]]] = []
    for other, containers in state.accounting.assignments.items():
        if other == uid:
            continue
        for name, blocks in containers.items():
            held = {block.type: block.size for block in blocks if block.type in wanted}
            if any(held.values()):
                nodes = blocks[0].numa_affinity
                found.append((-sum(held.values()), (other, name), nodes, held))
    found.sort(key=lambda entry: entry[:2])
    return tuple(_holder(state, key, nodes, held) for _, key, nodes, held in found[:LIMIT])


def _holder(
    state: EngineState, key: HolderKey, nodes: NodeSet, held: dict[str, int]
) -> HolderShown:
    holder = state.holders.get(key)
    pod = None if holder is None else state.pods.get(holder.sandbox_id)
    return HolderShown(
        namespace="" if pod is None else pod.namespace,
        pod="" if pod is None else pod.name,
        container=container_name(key[1]),
        pod_uid=key[0],
        nodes=nodes,
        held_bytes=held,
    )
