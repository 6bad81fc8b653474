"""Why there is no even group for a request, as text for `kubectl describe pod`."""

from functools import partial

from nri_numamem.memorymanager.even_groups import parts_of
from nri_numamem.memorymanager.node_verdicts import format_node_ids, prefixes_of
from nri_numamem.memorymanager.rejection import (
    MESSAGE_LIMIT,
    Explanation,
    Rejection,
    composed,
    format_amounts,
    verdicts_of,
)
from nri_numamem.memorymanager.state import NodeState, Request, State
from nri_numamem.numa.nodeset import NodeSet


def reject_evenly(
    state: State,
    request: Request,
    count: int,
    fitting: NodeSet | None,
    reason: str,
    sentence: str,
    remedy: str = "",
) -> Rejection:
    """Reject a request in equal parts on `count` nodes.

    `fitting` is the group that would do without topology constraints, `sentence` the kubelet's
    error text, and `remedy` replaces the usual one.
    """
    explain = partial(_explain, state, request, count, fitting, sentence, remedy)
    return Rejection(reason, explain, explain)


def _explain(
    state: State,
    request: Request,
    count: int,
    fitting: NodeSet | None,
    sentence: str,
    remedy: str,
    limit: int = MESSAGE_LIMIT,
) -> Explanation:
    parts = parts_of(request, count)
    rule = partial(_rule_of, parts=parts, count=count)
    verdicts = verdicts_of(state, prefixes_of(request), rule)
    each = format_amounts(parts)
    head = f"requested {format_amounts(request)} in equal parts on {count} NUMA nodes, {each} each"
    if fitting is not None:
        head += f"; without topology constraints it would fit on {format_node_ids(tuple(fitting))}"
    end = f"{remedy or _remedy(state, parts, count, fitting)}; {sentence}"
    return composed(head, verdicts, prefixes_of(request), end, limit)


def _rule_of(node: NodeState, parts: Request, count: int) -> str:
    """Return which rule excluded a node, or that none did."""
    if len(node.cells) not in (1, count):
        return f"in group {node.cells}"
    if len(node.cells) == 1 and node.number_of_assignments:
        return "has single-node assignments"
    if any(node.table(resource).allocatable < part for resource, part in parts.items()):
        return "too small for its part"
    if any(node.table(resource).free < part for resource, part in parts.items()):
        return "no room for its part"
    if node.lacks_normal_memory:
        return "no normal memory, only for a set with another node"
    return "room for its part"


def _remedy(state: State, parts: Request, count: int, fitting: NodeSet | None) -> str:
    """Return what changes the result; without a fitting group it does not depend on what is free.

    Nodes without normal memory count, so the remedy may not suffice where there are others.
    """
    if fitting is not None:
        where = "the NUMA nodes of its CPUs and devices"
        return f"remedy: make room on {where}, or set topologyManagerPolicy best-effort"
    large = [
        node_id
        for node_id, node in state.machine_state.items()
        if all(node.table(resource).allocatable >= part for resource, part in parts.items())
    ]
    if len(large) < count:
        return "remedy: request fewer NUMA nodes or less, or use a larger host"
    return f"remedy: make room on {count} whole NUMA nodes, or request fewer or less"
