"""Resource claims in the accounting: amounts on the NUMA nodes that a scheduler chose.

A claim is a holder that is its own owner (``holder``). It is charged once, with exact amounts for
each node, whichever containers use it. A slice can be older than an assignment, so a claim is
checked again when it is prepared:

======================  ========================================================================
claim of                admitted if
======================  ========================================================================
one NUMA node           the node is in no group, and can be the only node of a container
several NUMA nodes      nothing else is assigned to them; the claim then makes a group of them
either                  each node has the amounts free
======================  ========================================================================

Example: node 0 has 10Gi free, nodes 0-1 are a group. A claim of 4Gi on node 0 is refused, because
the group's containers may use all of node 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_numamem.memorymanager.accounting import adopt as adopt_on
from nri_numamem.memorymanager.accounting import assign_exactly, remove_container
from nri_numamem.memorymanager.blocks import page_bytes, resource_order
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.state import NodeState, State
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MAX_BYTES, humanize_bytes, is_memory_resource, sum_amounts

ClaimAmounts: TypeAlias = Mapping[int, Mapping[str, int]]
"""Node id -> resource name -> bytes, > 0. There is at least one node."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource claim, as the scheduler allocated it."""

    uid: str
    namespace: str
    name: str
    requests: Mapping[str, ClaimAmounts]
    """Name of the request -> amounts; a container can use one request or all of them."""
    pods: frozenset[str] = frozenset()
    """Uids of pods that use it; there can be others."""

    @property
    def amounts(self) -> ClaimAmounts:
        """The sum of its requests."""
        return sum_of(self.requests.values())

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """The use of a claim's request by a container."""

    uid: str
    """Of the claim."""
    request: str
    amounts: ClaimAmounts
    """Of the request; empty if they cannot be read."""
    name: str = ""
    """NAMESPACE/NAME of the claim."""


def sum_of(several: Iterable[ClaimAmounts]) -> ClaimAmounts:
    """Return the sum of amounts."""
    return _by_node(
        sum_amounts(
            ((node_id, resource), size_bytes)
            for amounts in several
            for node_id, wanted in amounts.items()
            for resource, size_bytes in wanted.items()
        )
    )


def nodes_of(amounts: ClaimAmounts) -> NodeSet:
    """Return the NUMA nodes of amounts."""
    return NodeSet(amounts)


def format_amounts(amounts: ClaimAmounts) -> str:
    """Return amounts as one argument of a program: "memory@1=4096,hugepages-2Mi@1=2097152"."""
    return ",".join(
        f"{resource}@{node_id}={wanted[resource]}"
        for node_id, wanted in sorted(amounts.items())
        for resource in sorted(wanted, key=resource_order)
    )


def parse_amounts(text: str) -> ClaimAmounts:
    """Return the amounts that `format_amounts` wrote; raises ValueError."""
    found: dict[tuple[int, str], int] = {}
    for part in text.split(","):
        place, is_assigned, size = part.partition("=")
        resource, _at, node = place.partition("@")
        if not (is_assigned and is_memory_resource(resource)):
            raise ValueError(f"{part!r} is not RESOURCE@NODE=BYTES")
        key = (_number(node), resource)
        if key in found:
            raise ValueError(f"{place!r} is there twice")
        found[key] = _number(size)
        if not 0 < found[key] <= MAX_BYTES:
            raise ValueError(f"{size!r} is not an amount")
    return _by_node(found)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_BYTES))):
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def _by_node(sizes: Mapping[tuple[int, str], int]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for (node_id, resource), size_bytes in sizes.items():
        found.setdefault(node_id, {})[resource] = size_bytes
    return found


@dataclass(frozen=True, slots=True)
class ClaimRejection:
    """Why a claim cannot be prepared."""

    reasons: tuple[str, ...]
    """One text for each NUMA node and amount that stands against it."""

    def __str__(self) -> str:
        """Return the reasons in one line."""
        return "; ".join(self.reasons)


def prepare(state: State, uid: str, amounts: ClaimAmounts) -> State | ClaimRejection:
    """Charge a claim, or return why not; the same state for a claim that is charged already.

    A claim cannot change: one that is charged with other amounts is refused.
    """
    charged = amounts_of(state, uid)
    if charged is not None:
        text = f"claim {uid} was prepared with other amounts: {_text_of(charged)}"
        return state if charged == _plain(amounts) else ClaimRejection((text,))
    reasons = tuple(_reasons(state, amounts))
    if reasons:
        return ClaimRejection(reasons)
    return assign_exactly(state, uid, HolderKind.CLAIM, _by_resource(amounts))


def adopt(state: State, uid: str, amounts: ClaimAmounts) -> State:
    """Charge a claim that is in use, whatever the rules; what its nodes lack is a shortfall."""
    are_free = all(
        node_id in state.machine_state
        and size_bytes <= state.machine_state[node_id].table(resource).free
        for node_id, wanted in amounts.items()
        for resource, size_bytes in wanted.items()
    )
    by_resource = _by_resource(amounts)
    if are_free:
        return assign_exactly(state, uid, HolderKind.CLAIM, by_resource)
    request = {resource: sum(by_node.values()) for resource, by_node in by_resource.items()}
    return adopt_on(state, uid, HolderKind.CLAIM, nodes_of(amounts), request).state


def unprepare(state: State, uid: str) -> State:
    """Release a claim; the same state if it is not charged."""
    return remove_container(state, uid, HolderKind.CLAIM)


def share_of(node: NodeState, resource: str, percent: int) -> int:
    """Return a share of a node's allocatable amount in bytes, in whole pages."""
    page = page_bytes(resource)
    return node.table(resource).allocatable * percent // (100 * page) * page


def amounts_of(state: State, uid: str) -> ClaimAmounts | None:
    """Return the amounts of a claim; None if it is not charged."""
    blocks = state.blocks(uid, HolderKind.CLAIM)
    if blocks is None:
        return None
    return _by_node({(n, block.type): size for block in blocks for n, size in block.charges})


def bytes_of_claims(state: State, uids: Iterable[str]) -> Mapping[tuple[int, str], int]:
    """Return (node id, resource) -> the bytes that claims hold; other uids hold nothing."""
    return sum_amounts(
        ((node_id, block.type), size_bytes)
        for uid in uids
        for block in state.blocks(uid, HolderKind.CLAIM) or ()
        for node_id, size_bytes in block.charges
    )


def _reasons(state: State, amounts: ClaimAmounts) -> Iterator[str]:
    is_single = len(amounts) == 1
    for node_id, wanted in sorted(amounts.items()):
        node = state.machine_state.get(node_id)
        if node is None:
            yield f"there is no NUMA node {node_id} for pods"
            continue
        if is_single and len(node.cells) > 1:
            yield f"NUMA node {node_id} is in group {node.cells}; a claim of one node cannot use it"
        if is_single and node.lacks_normal_memory:
            yield f"NUMA node {node_id} has no normal memory and cannot be the only node"
        if not is_single and node.number_of_assignments:
            yield f"NUMA node {node_id} has assignments; a claim of several nodes needs empty ones"
        for resource in sorted(wanted, key=resource_order):
            free = node.table(resource).free
            if wanted[resource] > free:
                short = humanize_bytes(wanted[resource] - free, round_up=True)
                yield (
                    f"NUMA node {node_id} has {resource} {humanize_bytes(free)} free of "
                    f"{humanize_bytes(wanted[resource], round_up=True)} requested, {short} short"
                )


def _by_resource(amounts: ClaimAmounts) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for node_id, wanted in amounts.items():
        for resource, size_bytes in wanted.items():
            found.setdefault(resource, {})[node_id] = size_bytes
    return found


def _plain(amounts: ClaimAmounts) -> dict[int, dict[str, int]]:
    return {node_id: dict(wanted) for node_id, wanted in amounts.items()}


def _text_of(amounts: ClaimAmounts) -> str:
    return ", ".join(
        f"{resource} {humanize_bytes(wanted[resource], round_up=True)} on NUMA node {node_id}"
        for node_id, wanted in sorted(amounts.items())
        for resource in sorted(wanted, key=resource_order)
    )
