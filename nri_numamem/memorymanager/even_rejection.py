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
    limitation: str = "",
) -> Rejection:
    """Reject a request in equal parts on `count` nodes, two or more.

    `fitting` is the group that would do without topology constraints, `sentence` the kubelet's
    error text, and `limitation` what the policy allows at most.
    """
    return Rejection(
        reason, partial(_explain, state, request, count, fitting, sentence, limitation)
    )


def _explain(
    state: State,
    request: Request,
    count: int,
    fitting: NodeSet | None,
    sentence: str,
    limitation: str,
) -> Explanation:
    parts = parts_of(request, count)
    verdicts = verdicts_of(state, request, lambda n: even_reason_of(state, request, count, n))
    each = format_amounts(parts)
    facts = f"requested {format_amounts(request)} in equal parts on {count} NUMA nodes, {each} each"
    if limitation:
        facts += f"; {limitation}"
    if fitting is not None:
        facts += f"; without topology constraints it would fit on {format_node_ids(tuple(fitting))}"
    return Explanation(facts, sentence, verdicts)
