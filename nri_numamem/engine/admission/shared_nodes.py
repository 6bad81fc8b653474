"""The nodes that a container gets because it shares the memory of its pod's live containers."""

from collections.abc import Iterable

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState, Key
from nri_numamem.memorymanager import Request, extend_containers, remove_container
from nri_numamem.numa import NodeSet


def of_live_others(state: EngineState, key: Key) -> list[NodeSet]:
    """Return the node sets of a pod's other live containers, without excluded and lost nodes."""
    usable = NodeSet(state.accounting.machine_state)
    sets = [b[0].numa_affinity for b in state.blocks_of_live_others(key) if b]
    return [nodes for nodes in dict.fromkeys(sets) if nodes.issubset(usable)]


def extend(
    context: Context, state: EngineState, key: Key, request: Request, sets: Iterable[NodeSet]
) -> tuple[EngineState, NodeSet] | None:
    """Give more nodes to all of a pod's containers on one of `sets`, so that `request` fits.

    Also return the nodes; None if the policy admits no larger set.
    """
    topology = context.topology
    admits = topology.policy.admits_several_nodes
    without_it = remove_container(state.accounting, *key)
    for nodes in sets:
        found = extend_containers(without_it, key[0], nodes, request, topology.preferences, admits)
        if found is not None:
            return state.with_accounting(found[0]), found[1]
    return None
