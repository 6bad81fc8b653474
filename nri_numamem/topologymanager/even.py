"""Admission to an even group, a number of nodes with equal parts of a request, and its rejection.

The memory manager's hints are all even groups of the requested size, and all are preferred. So
`restricted` admits a container whose CPUs and devices have hints for exactly the group, or none,
and `single-numa-node` admits none. With `best-effort` the group contains the nodes of the other
providers, or is inside them; hints that leave no group are ignored in turn, devices first.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from nri_numamem.memorymanager.accounting import remove_container
from nri_numamem.memorymanager.candidates import Hint
from nri_numamem.memorymanager.even_groups import best_even_group, fits_evenly, parts_of
from nri_numamem.memorymanager.hints import ANYWHERE, kept_blocks
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.node_reasons import even_reason_of
from nri_numamem.memorymanager.node_verdicts import format_node_ids
from nri_numamem.memorymanager.pod import Pod
from nri_numamem.memorymanager.policy_static import NO_DEFAULT
from nri_numamem.memorymanager.rejection import (
    NOT_ALIGNED,
    TOPOLOGY,
    UNEXPECTED,
    Explanation,
    Rejection,
    allocation_failed,
    format_amounts,
    verdicts_of,
)
from nri_numamem.memorymanager.state import Request, State
from nri_numamem.numa.idset import NodeSet
from nri_numamem.topologymanager.admission import Placement, Topology
from nri_numamem.topologymanager.merge import ProviderHints, TopologyPolicy, merged_hints_of


def admit_evenly(
    state: State,
    pod: Pod,
    name: HolderName,
    count: int,
    topology: Topology,
    others: Sequence[ProviderHints] = (),
) -> Placement | Rejection:
    """Choose `count` nodes for a container, two or more, with equal parts of its request.

    A container that has such nodes already keeps them.
    """
    blocks = kept_blocks(state, pod, name)
    if blocks and blocks[0].is_even and len(blocks[0].numa_affinity) == count:
        nodes: NodeSet | None = blocks[0].numa_affinity
    else:
        state = remove_container(state, pod.uid, name)
        nodes = _choose(state, pod, name, count, topology, others)
    if nodes is None:
        return _rejection(state, pod, name, count, topology)
    return Placement(nodes, Hint(nodes, preferred=True), pod, name, state, is_even=True)


def _choose(
    state: State,
    pod: Pod,
    name: HolderName,
    count: int,
    topology: Topology,
    others: Sequence[ProviderHints],
) -> NodeSet | None:
    """Return the group for a container without an assignment; None if there is none."""
    policy = topology.policy
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        return None
    attempts = len(others) if policy.admits_all else 0
    for ignored in range(attempts + 1):
        merged = merged_hints_of(others[ignored:], policy).masks
        found = _aligned(state, pod, name, count, topology, merged)
        if found is not None:
            return found
    return None


def _aligned(
    state: State,
    pod: Pod,
    name: HolderName,
    count: int,
    topology: Topology,
    masks: Mapping[int, bool],
) -> NodeSet | None:
    """Return the group that ranks first among those that agree with the others' hints."""
    request, preferences = pod.container(name).requests, topology.preferences
    best = partial(best_even_group, state, pod.uid, request, count, preferences)
    if masks.get(ANYWHERE):
        return best()
    found: list[NodeSet | None] = []
    for mask, is_agreed in masks.items():
        nodes = NodeSet.from_mask(mask) if mask != ANYWHERE else NodeSet()
        if is_agreed and len(nodes) == count:
            found.append(nodes if fits_evenly(state, pod.uid, request, nodes) else None)
        elif nodes and topology.policy.admits_all:
            found.append(best(fixed=nodes) if len(nodes) <= count else best(within=nodes))
    return min((each for each in found if each), key=preferences.rank, default=None)


def _rejection(
    state: State, pod: Pod, name: HolderName, count: int, topology: Topology
) -> Rejection:
    request = pod.container(name).requests
    fitting = best_even_group(state, pod.uid, request, count, topology.preferences)
    if topology.policy.admits_all:
        sentence = allocation_failed(NO_DEFAULT)
        return reject_evenly(state, request, count, fitting, UNEXPECTED, sentence)
    is_single = topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    limitation = f"{topology.policy} allows 1" if is_single else ""
    return reject_evenly(state, request, count, fitting, TOPOLOGY, NOT_ALIGNED, limitation)


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
