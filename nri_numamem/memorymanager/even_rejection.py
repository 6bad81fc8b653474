"""Why there is no even group for a request, as text for `kubectl describe pod`."""

from functools import partial

from nri_numamem.memorymanager.even_groups import parts_of
from nri_numamem.memorymanager.node_reasons import even_reason_of
from nri_numamem.memorymanager.node_verdicts import format_node_ids
from nri_numamem.memorymanager.rejection import (
    Explanation,
    Rejection,
    format_amounts,
    verdicts_of,
)
from nri_numamem.memorymanager.state import Request, State
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
    """Reject a request in equal parts on `count` nodes, two or more.

    `fitting` is the group that would do without topology constraints, `sentence` the kubelet's
    error text, and `remedy` replaces the usual one.
    """
    return Rejection(reason, partial(_explain, state, request, count, fitting, sentence, remedy))


def _explain(
    state: State,
    request: Request,
    count: int,
    fitting: NodeSet | None,
    sentence: str,
    remedy: str,
) -> Explanation:
    parts = parts_of(request, count)
    verdicts = verdicts_of(state, request, lambda n: even_reason_of(state, request, count, n))
    each = format_amounts(parts)
    facts = f"requested {format_amounts(request)} in equal parts on {count} NUMA nodes, {each} each"
    if fitting is not None:
        facts += f"; without topology constraints it would fit on {format_node_ids(tuple(fitting))}"
    remedy = remedy or _remedy(state, parts, count, fitting)
    return Explanation(facts, remedy, sentence, verdicts)


def _remedy(state: State, parts: Request, count: int, fitting: NodeSet | None) -> str:
    """Return what changes the result; without a fitting group it does not depend on what is free.

    Nodes without normal memory count, so the remedy may not suffice where there are others.
    """
    if fitting is not None:
        where = "the NUMA nodes of its CPUs and devices"
        return f"make room on {where}, or set topologyManagerPolicy best-effort"
    large = [
        node_id
        for node_id, node in state.machine_state.items()
        if all(node.table(resource).allocatable >= part for resource, part in parts.items())
    ]
    if len(large) < count:
        return "request fewer NUMA nodes or less, or use a larger host"
    return f"make room on {count} whole NUMA nodes, or request fewer or less"
