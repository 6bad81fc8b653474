"""Why a node set was chosen or passed over: the one source for texts, screens and records.

``reason_of`` has the rules of memory. The engine adds those of the policy and of the other
providers (``engine.core.candidates``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nri_numamem.memorymanager.blocks import resource_order
from nri_numamem.memorymanager.candidates import Candidates, crosses_groups, free_bytes
from nri_numamem.memorymanager.even_groups import parts_of
from nri_numamem.memorymanager.state import (
    NO_TABLE,
    NodeState,
    Request,
    State,
    has_normal_memory,
)
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY, humanize_bytes


class Rule(StrEnum):
    """Why a node set was chosen or passed over."""

    CHOSEN = "chosen"
    TOO_SMALL = "too_small"
    OTHER_GROUP = "other_group"
    BLOCKS_GROUP = "blocks_group"
    NO_NORMAL_MEMORY = "no_normal_memory"
    NOT_ENOUGH_FREE = "not_enough_free"
    NOT_ENOUGH_TOGETHER = "not_enough_together"
    OUTSIDE_POD_NODES = "outside_pod_nodes"
    NOT_ALIGNED = "not_aligned"
    NOT_PREFERRED = "not_preferred"
    OTHER_COUNT = "other_count"
    REJECTED_BY_POLICY = "rejected_by_policy"
    RANKS_LOWER = "ranks_lower"


SUMMARIES: Mapping[Rule, str] = {
    Rule.CHOSEN: "chosen",
    Rule.TOO_SMALL: "too small, even if empty",
    Rule.OTHER_GROUP: "in other groups",
    Rule.BLOCKS_GROUP: "blocked for groups by single-node assignments",
    Rule.NO_NORMAL_MEMORY: "only movable memory (ZONE_MOVABLE), usable only with another node",
    Rule.NOT_ENOUGH_FREE: "not enough free",
    Rule.NOT_ENOUGH_TOGETHER: "not enough together with the other nodes",
    Rule.OUTSIDE_POD_NODES: "not where the pod as a whole is",
    Rule.NOT_ALIGNED: "not the node of the CPUs or a device",
    Rule.NOT_PREFERRED: "more nodes than needed",
    Rule.OTHER_COUNT: "another number of nodes than requested",
    Rule.REJECTED_BY_POLICY: "has room, but the policy does not admit it",
    Rule.RANKS_LOWER: "fits, but the chosen nodes rank higher",
}
"""Rule -> text for all node sets to which it applies."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The rule that applies to a node set."""

    rule: Rule
    text: str
    """With amounts and node ids, such as "7Gi short"; never with names of pods."""


HAS_ROOM = Reason(Rule.REJECTED_BY_POLICY, "has room")
"""The reason for a node that could hold the request, as far as memory is concerned."""


def reason_for(rule: Rule) -> Reason:
    """Return the reason of a rule without amounts."""
    return Reason(rule, SUMMARIES[rule])


def reason_of(
    state: State,
    uid: str,
    request: Request,
    candidates: Candidates,
    nodes: NodeSet,
) -> Reason | None:
    """Return why a request of pod `uid` cannot be placed on exactly these nodes; None if it can.

    If a single node is too small, the reason says why it is in no set that holds the request.
    `candidates` are those of the request.
    """
    if candidates.admits(nodes):
        return None
    present = [state.machine_state[n] for n in nodes if n in state.machine_state]
    (node,) = present if len(nodes) == len(present) == 1 else (None,)
    if node is not None and len(node.cells) > 1:
        return _in_group(state, node.cells, request)
    short = _short(request, present, is_empty=True)
    if short:
        if node is not None and node.number_of_assignments and candidates.minimum is not None:
            return _blocks_group(node, request)
        return Reason(Rule.TOO_SMALL, f"{short} short, even if empty")
    if crosses_groups(state, nodes):
        return reason_for(Rule.OTHER_GROUP)
    if not has_normal_memory(state, nodes):
        return reason_for(Rule.NO_NORMAL_MEMORY)
    unmet = {n: size - state.reusable_bytes(uid, nodes, n) for n, size in request.items()}
    return Reason(Rule.NOT_ENOUGH_FREE, f"{_short(unmet, present)} short")


def even_reason_of(state: State, request: Request, count: int, node_id: int) -> Reason:
    """Return why a node is in no even group of `count` nodes, or that it has room for its part."""
    node, parts = state.machine_state[node_id], parts_of(request, count)
    if len(node.cells) not in (1, count):
        return _in_group(state, node.cells, request)
    if len(node.cells) == 1 and node.number_of_assignments:
        return _blocks_group(node, request)
    short = _short(parts, [node], is_empty=True)
    if short:
        return Reason(Rule.TOO_SMALL, f"{short} short for its part, even if empty")
    short = _short(parts, [node])
    if short:
        return Reason(Rule.NOT_ENOUGH_FREE, f"{short} short for its part")
    if node.lacks_normal_memory:
        return reason_for(Rule.NO_NORMAL_MEMORY)
    return Reason(Rule.OTHER_COUNT, "has room for its part")


def prefixes_of(request: Iterable[str]) -> dict[str, str]:
    """Return resource -> its name in front of an amount; "" if only memory is requested."""
    order = sorted(request, key=resource_order)
    return {resource: "" if order == [MEMORY] else f"{resource} " for resource in order}


def _blocks_group(node: NodeState, request: Request) -> Reason:
    assigned = ", ".join(
        f"{prefix}{humanize_bytes(node.table(name).reserved)}"
        for name, prefix in prefixes_of(request).items()
    )
    return Reason(Rule.BLOCKS_GROUP, f"blocks a group ({assigned} assigned)")


def _in_group(state: State, cells: NodeSet, request: Request) -> Reason:
    free = ", ".join(
        f"{prefix}{humanize_bytes(free_bytes(state, cells, name))}"
        for name, prefix in prefixes_of(request).items()
    )
    return Reason(Rule.OTHER_GROUP, f"in group {cells} with {free} free")


def _short(request: Request, nodes: Iterable[NodeState], *, is_empty: bool = False) -> str:
    """Return the amounts by which a request exceeds what nodes have together; "" for none.

    With `is_empty`, what they would have without assignments.
    """
    maps = [node.memory_map for node in nodes]
    texts: list[str] = []
    for name, prefix in prefixes_of(request).items():
        tables = [tables.get(name, NO_TABLE) for tables in maps]
        found = sum(table.allocatable if is_empty else table.free for table in tables)
        if request[name] > found:
            texts.append(f"{prefix}{humanize_bytes(request[name] - found, round_up=True)}")
    return ", ".join(texts)
