"""Pods that may be placed on some of the nodes only: what a placement sees, and says about it.

A feature allows the nodes (``Feature.allowed_nodes``). For the placement the other nodes are
absent, as excluded ones are. A pod also keeps the nodes that it has, because its containers run
there: the setting may have changed since they started. Room that is set aside for other pods is
absent as well (``earmarks``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import Rejection, State
from nri_numamem.memorymanager.claims import bytes_of_claims, share_of
from nri_numamem.memorymanager.earmarks import Room, set_aside
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.rejection import format_amounts
from nri_numamem.memorymanager.state import without_nodes
from nri_numamem.numa import NodeSet


def mask_others(context: Context, pod: PodSandbox, masked: MaskedState) -> MaskedState:
    """Return the accounting for a placement, without nodes on which the pod must not be."""
    allowed = context.allowed_nodes(pod)
    return masked if allowed is None else masked.without(_others(masked.state, pod, allowed.nodes))


def around(
    context: Context, state: EngineState, available: State, pod: PodSandbox
) -> EngineState | None:
    """Return the state with the nodes of the pods that may use those of `pod` and more.

    None if there are no such pods. `available` is the accounting with all nodes.
    """
    allowed = context.allowed_nodes(pod)
    if allowed is None or allowed.around == allowed.nodes:
        return None
    others = _others(available, pod, allowed.around)
    return state.with_accounting(without_nodes(available, others))


def _others(accounting: State, pod: PodSandbox, allowed: NodeSet) -> NodeSet:
    return NodeSet(accounting.machine_state) - allowed - own_nodes(accounting, pod)


def own_nodes(accounting: State, pod: PodSandbox) -> NodeSet:
    """Return the nodes that a pod has."""
    return NodeSet(
        node_id
        for blocks in accounting.assignments.get(pod.uid, {}).values()
        for block in blocks
        for node_id in block.numa_affinity
    )


def partition_of(context: Context, pod: PodSandbox) -> str:
    """Return the name of the pod's partition; "" without partitions."""
    allowed = context.allowed_nodes(pod)
    return "" if allowed is None else allowed.name


def possible_nodes(context: Context, accounting: State, pod: PodSandbox) -> NodeSet:
    """Return the nodes that a pod may use, those that it has included."""
    allowed = context.allowed_nodes(pod)
    if allowed is None:
        return context.memory_nodes
    return allowed.nodes | own_nodes(accounting, pod)


def with_cause(
    context: Context,
    pod: PodSandbox,
    rejection: Rejection,
    masked: MaskedState,
    resources: Iterable[str],
) -> Rejection:
    """Return a rejection with the reason why other nodes are not allowed, and what they have free.

    `masked` is the accounting of the placement.
    """
    allowed = context.allowed_nodes(pod)
    if allowed is None or not masked.hidden:
        return rejection
    hidden = masked.hidden.values()
    free = {name: sum(node.table(name).free for node in hidden) for name in resources}
    return rejection.with_fact(f"{allowed.cause}; {format_amounts(free)} free on other NUMA nodes")


def mask_set_aside(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    masked: MaskedState,
    *,
    is_resize: bool = False,
) -> MaskedState:
    """Return the accounting for a placement, without room that is set aside for others."""
    rooms = _rooms_of_others(context, state, pod, is_resize=is_resize)
    return set_aside(masked, rooms, own_nodes(state.accounting, pod)) if rooms else masked


def without_earmarks(state: EngineState, masked: MaskedState) -> MaskedState:
    """Return the accounting without the room that earmarks set aside."""
    return set_aside(masked, rooms_left(state))


def with_set_aside(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    rejection: Rejection,
    *,
    is_resize: bool = False,
) -> Rejection:
    """Return a rejection with the room that is set aside for others."""
    for fact in set_aside_facts(_earmarked_for_others(state, pod)):
        rejection = rejection.with_fact(fact)
    if _must_leave_share(context, state, pod, is_resize=is_resize):
        rejection = rejection.with_fact(f"{_share_text(context)} is set aside for resource claims")
    return rejection


def set_aside_texts(context: Context, state: EngineState, pod: PodSandbox) -> tuple[str, ...]:
    """Return a text for each room that is set aside for others, for an operator.

    "memory 8Gi on node 0 for ml/train-4".
    """
    texts = [
        f"{format_amounts(room.amounts)} on {format_nodes(room.nodes)} for "
        f"{state.earmarks[uid].beneficiary}"
        for uid, room in _earmarked_for_others(state, pod).items()
    ]
    if _must_leave_share(context, state, pod):
        texts.append(f"{_share_text(context)} for resource claims")
    return tuple(texts)


def _share_text(context: Context) -> str:
    return f"{context.policy.claims_share_percent} % of each NUMA node"


def _rooms_of_others(
    context: Context, state: EngineState, pod: PodSandbox, *, is_resize: bool = False
) -> Mapping[str, Room]:
    """Return the room of earmarks for others, and what is left of the share for claims."""
    rooms = _earmarked_for_others(state, pod)
    if not _must_leave_share(context, state, pod, is_resize=is_resize):
        return rooms
    return {**rooms, **left_for_claims(context, state)}


def _must_leave_share(
    context: Context, state: EngineState, pod: PodSandbox, *, is_resize: bool = False
) -> bool:
    """Return whether a pod must leave the share of claims free.

    A pod that has begun may use it, because the setting may have been lower when it began. But it
    does not grow into it.
    """
    is_new = pod.uid not in state.accounting.assignments
    return bool(context.policy.claims_share_percent) and (is_new or is_resize)


def _earmarked_for_others(state: EngineState, pod: PodSandbox) -> Mapping[str, Room]:
    return rooms_left(state, lambda each: each.is_closed_to(pod))


def left_for_claims(context: Context, state: EngineState) -> Mapping[str, Room]:
    """Return what is left of each node's share for claims, by an id; empty without a share."""
    percent = context.policy.claims_share_percent
    if not percent:
        return {}
    held = bytes_of_claims(state.accounting, state.claims)
    rooms: dict[str, Room] = {}
    for node_id, node in state.accounting.machine_state.items():
        left: dict[str, int] = {}
        for name in node.memory_map:
            size = share_of(node, name, percent) - held.get((node_id, name), 0)
            if size > 0:
                left[name] = size
        if left:
            rooms[f"claims on node {node_id}"] = Room(NodeSet([node_id]), left)
    return rooms


def all_rooms(context: Context, state: EngineState) -> Mapping[str, Room]:
    """Return the room that is set aside for pods and for claims, by an id."""
    return {**rooms_left(state), **left_for_claims(context, state)}


def rooms_left(
    state: EngineState, is_wanted: Callable[[Earmark], bool] = lambda _: True
) -> Mapping[str, Room]:
    """Return uid -> what is left of earmarks, of those that have something left."""
    pods = state.pods.values()
    wanted = ((uid, each) for uid, each in sorted(state.earmarks.items()) if is_wanted(each))
    left = ((uid, each.left(state.accounting, pods)) for uid, each in wanted)
    return {uid: room for uid, room in left if room.amounts}


def set_aside_facts(rooms: Mapping[str, Room]) -> Iterator[str]:
    """Yield a text for each room, which names no pod: the users of a cluster read it."""
    for room in rooms.values():
        where = format_nodes(room.nodes)
        yield f"{format_amounts(room.amounts)} on {where} is set aside for other pods"
