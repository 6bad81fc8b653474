"""A rebalancing plan on a host: its search, and its text and document for commands.

The plugin moves nothing. A plan says which pods an operator can restart so that a refused one fits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nri_numamem.engine.core.allowed_nodes import all_rooms
from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.partitions.layouts import nodes_of_partition
from nri_numamem.engine.queries.rebalance import ContainerFacts, shares_of
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.earmarks import set_aside
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.memorymanager.rebalance import (
    MAX_MOVES,
    MAX_TRIALS,
    Move,
    Place,
    Rebalancing,
    Share,
    find_plan,
)
from nri_numamem.numa import humanize_bytes

BY_HAND = (
    "the plugin moves nothing: kubectl cordon the node, delete these pods, wait until the refused "
    "container runs, kubectl uncordon"
)

WITH_EARMARK = (
    "the plugin moves nothing: nri-numamem rebalance {pod} --apply restarts these pods, and keeps "
    "the room for the refused one"
)

PodNames = Mapping[str, tuple[str, str]]
"""Pod uid -> namespace and name."""


def plan_on(
    context: Context,
    state: EngineState,
    facts: Mapping[str, ContainerFacts],
    uids: Iterable[str],
    place: Place,
) -> Rebalancing:
    """Return the cheapest plan that moves some of these pods; `facts` is by container id."""
    shares = [
        replace(share, targets=nodes_of_partition(context, share.node_id))
        for share in shares_of(state, facts, uids)
    ]
    last_resort, rooms = context.topology.preferences.last_resort, all_rooms(context, state)

    def view(accounting: State) -> State:
        return set_aside(MaskedState(accounting), rooms).state

    return find_plan(state.accounting, shares, place, last_resort=last_resort, view=view)


def sentence(plan: Rebalancing, names: PodNames) -> str:
    """Return a plan, or why there is none, as one sentence."""
    if plan.fits_now:
        where = f" on {format_nodes(plan.nodes)}" if plan.nodes else ""
        return f"fits now{where}: nothing has to move"
    if plan.moves:
        moves = " and ".join(_move(move, names) for move in plan.moves)
        return f"would fit on {format_nodes(plan.nodes)} if {moves}{_without_consent(plan, names)}"
    if plan.blocking:
        shares = " and ".join(_blocking(share, names) for share in plan.blocking)
        return f"none with at most {MAX_MOVES} moves of pods that may move; in the way: {shares}"
    if not plan.is_complete:
        return f"none found among the first {MAX_TRIALS} combinations of pods and nodes"
    return f"none with at most {MAX_MOVES} moves"


def _move(move: Move, names: PodNames) -> str:
    assigned, resident = humanize_bytes(move.assigned_bytes), move.share.resident_bytes
    use = f"{assigned}, use unknown"
    if resident is not None:
        use = f"{humanize_bytes(resident)} resident of {assigned}"
    source = move.share.node_id
    return f"{_name(move.share, names)} moved from node {source} to node {move.target} ({use})"


def _blocking(share: Share, names: PodNames) -> str:
    return f"{_name(share, names)} on node {share.node_id} ({share.obstacle})"


def _without_consent(plan: Rebalancing, names: PodNames) -> str:
    shares = [move.share for move in plan.moves if not move.share.is_consented]
    if not shares:
        return ""
    who = " and ".join(dict.fromkeys(_name(share, names) for share in shares))
    return f"; without consent ({MOVABLE_ANNOTATION}): {who}"


def _name(share: Share, names: PodNames) -> str:
    return "/".join(names[share.uid]) if share.uid in names else share.uid


def document(plan: Rebalancing, names: PodNames) -> dict[str, object]:
    """Return a plan for ``--output json``; docs/rebalancing.md describes it."""
    return {
        "fitsNow": plan.fits_now,
        "nodes": list(plan.nodes),
        "moves": [
            {
                **_share(move.share, names),
                "to": move.target,
                "residentBytes": move.share.resident_bytes,
                "assignedBytes": move.assigned_bytes,
                "consented": move.share.is_consented,
            }
            for move in plan.moves
        ],
        "moveBytes": plan.cost_bytes,
        "blocking": [
            {**_share(share, names), "obstacle": share.obstacle} for share in plan.blocking
        ],
        "complete": plan.is_complete,
        "text": sentence(plan, names),
    }


def _share(share: Share, names: PodNames) -> dict[str, object]:
    namespace, pod = names.get(share.uid, ("", ""))
    return {
        "namespace": namespace,
        "pod": pod,
        "podUid": share.uid,
        "containers": list(share.containers),
        "from": share.node_id,
    }
