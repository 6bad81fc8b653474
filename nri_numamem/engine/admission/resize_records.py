"""Records of changed memory limits of running containers, and the text of a rejection.

A rejection makes only the resize fail: the container runs on as before. The kubelet shows the text
in the pod's condition, and retries.
"""

from collections.abc import Sequence

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import (
    PREFIX,
    container_names,
    free_bytes,
    pod_name,
    remedy_shown,
)
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.records.common import AdjustmentShown, Candidate, ContainerNames
from nri_numamem.engine.records.running import Resized, ResizeRejected, UpdateWithoutEffect
from nri_numamem.memorymanager import Block
from nri_numamem.memorymanager import Resized as Done
from nri_numamem.memorymanager.node_reasons import Reason, Rule, reason_for
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.numa import MEMORY, NodeSet, humanize_bytes

# Of a text of at most 900 characters; names have 63 to 253.
_FREE_CHARACTERS = 240


def resized(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Done,
) -> Resized:
    """Record a changed memory limit; `state` is the state with the new limit."""
    nodes_before = before[0].numa_affinity
    candidates = [_candidate(done.nodes, reason_for(Rule.CHOSEN))]
    adjustment = None
    if done.nodes != nodes_before:
        candidates.insert(0, _candidate(nodes_before, reason_for(Rule.NOT_ENOUGH_FREE)))
        adjustment = AdjustmentShown(cpuset_mems=done.nodes)
    return Resized(
        names=_names(pod, holder),
        previous_memory_bytes=_memory_of(before),
        request_bytes={block.type: block.size for block in state.blocks(holder.key) or ()},
        previous_nodes=nodes_before,
        candidates=(*candidates,),
        nodes=done.nodes,
        adjustment=adjustment,
        shortfall_bytes=done.shortfall,
        free_bytes=free_bytes(state.accounting, (MEMORY,), nodes_before | done.nodes),
        alternate=bool(done.shortfall),
    )


def without_effect(pod: PodSandbox, container: Container, cause: str) -> UpdateWithoutEffect:
    """Record an update that concerns neither the nodes nor the assignment of its container."""
    return UpdateWithoutEffect(names=container_names(pod, container), cause=cause)


def rejected(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Done,
    remedies: Sequence[Remedy],
) -> ResizeRejected:
    """Record a resize that is refused; `done` is what it would have resulted in."""
    nodes_before = before[0].numa_affinity
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    reason = Reason(Rule.NOT_ENOUGH_FREE, f"{short} short")
    sets = dict.fromkeys((nodes_before, done.nodes))
    return ResizeRejected(
        names=_names(pod, holder),
        previous_memory_bytes=_memory_of(before),
        request_bytes={block.type: block.size for block in done.state.blocks(*holder.key) or ()},
        candidates=tuple(_candidate(nodes, reason) for nodes in sets),
        nodes=nodes_before,
        shortfall_bytes=done.shortfall,
        free_bytes=free_bytes(state.accounting, (MEMORY,), nodes_before | done.nodes),
        remedies=tuple(remedy_shown(each) for each in remedies),
    )


def _candidate(nodes: NodeSet, reason: Reason) -> Candidate:
    return Candidate(nodes=nodes, rule=reason.rule.value, reason=reason.text)


def rejection_facts(
    state: EngineState, pod: PodSandbox, holder: Holder, new_bytes: int, done: Done
) -> str:
    """Return the text of the reply, without remedies."""
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    name, size = cut_name(holder.container_name), humanize_bytes(new_bytes, round_up=True)
    return (
        f"{PREFIX}container {name} of pod {pod_name(pod)} cannot be resized to memory {size}: "
        f"{short} too much for {format_nodes(done.nodes)} ({_free(state, done.nodes)}), and no "
        "larger set of nodes may be used"
    )


def _free(state: EngineState, nodes: NodeSet) -> str:
    """Return the free memory of each node, or if that is too long, the most of one."""
    free = {
        node_id: node.table(MEMORY).free
        for node_id, node in state.accounting.machine_state.items()
        if node_id in nodes
    }
    each = "; ".join(f"NUMA node {n} has {humanize_bytes(size)} free" for n, size in free.items())
    if len(each) <= _FREE_CHARACTERS:
        return each
    return f"at most {humanize_bytes(max(free.values()))} free on one node"


def _names(pod: PodSandbox, holder: Holder) -> ContainerNames:
    return ContainerNames(
        pod=pod.name,
        namespace=pod.namespace,
        container=holder.container_name,
        pod_uid=pod.uid,
        container_id=holder.container_id,
    )


def _memory_of(blocks: tuple[Block, ...]) -> int | None:
    return next((block.size for block in blocks if block.type == MEMORY), None)
