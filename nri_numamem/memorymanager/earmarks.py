"""Room that is set aside on NUMA nodes for some pods, as the placement of other pods sees it.

The accounting does not have such room: it is neither assigned nor reserved. It is taken out of the
accounting for one placement, and put back after it, as unavailable hugepages are. So the room does
not have to be free; what becomes free on its nodes is set aside as well.

====================  ============================================================================
room on               what another placement sees
====================  ============================================================================
one NUMA node         its amounts are assigned, as far as they are free; so the node joins no group
one node of a group   the node is absent: the room needs the end of the group
several NUMA nodes    the nodes are absent: an assignment there would keep them from being a group
====================  ============================================================================

Example: node 0 has 10Gi free, and room of 8Gi is set aside there. Another pod finds 2Gi on node 0,
and no group with it. The pod for which the room is finds 10Gi.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nri_numamem.memorymanager.accounting import assign_exactly
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.state import NodeState
from nri_numamem.numa.idset import NodeSet


@dataclass(frozen=True, slots=True)
class Room:
    """Amounts on NUMA nodes; those of several nodes are for one group of them."""

    nodes: NodeSet
    amounts: Mapping[str, int]
    """Resource -> bytes, > 0, on all nodes together."""


def set_aside(
    masked: MaskedState, rooms: Mapping[str, Room], own: NodeSet | None = None
) -> MaskedState:
    """Return the accounting without rooms, by their ids; the nodes `own` stay present.

    `own` are the nodes that the pod has already: its containers run there.
    """
    state, absent = masked.state, NodeSet()
    charged: list[str] = []
    for uid, room in rooms.items():
        present = NodeSet(n for n in room.nodes if n in state.machine_state)
        if len(room.nodes) > 1 or any(len(state.machine_state[n].cells) > 1 for n in present):
            absent |= present
            continue
        for node_id in present:
            charges = _free_part(state.machine_state[node_id], node_id, room)
            if charges:
                state = assign_exactly(state, uid, HolderKind.EARMARK, charges)
                charged.append(uid)
    found = replace(masked, state=state, earmarks=(*masked.earmarks, *charged))
    absent -= own or NodeSet()
    return found.without(absent) if absent else found


def _free_part(node: NodeState, node_id: int, room: Room) -> dict[str, dict[int, int]]:
    sizes = {name: min(size, node.table(name).free) for name, size in room.amounts.items()}
    return {name: {node_id: size} for name, size in sizes.items() if size > 0}
