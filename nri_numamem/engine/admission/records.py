"""Records of decisions on containers, and the text of a rejection."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from nri_numamem.engine.core.allowed_nodes import partition_of, set_aside_texts
from nri_numamem.engine.core.candidates import Choice, considered
from nri_numamem.engine.core.context import Context, qos_of_cgroup_parent
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import (
    PREFIX,
    adjustment_shown,
    container_names,
    free_bytes,
    holder_names,
    pod_name,
    remedy_shown,
    used_outside_of_pods,
)
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.request import Request, ToPlace, request_of_pod
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.core.text import NAME_CHARACTERS, cut
from nri_numamem.engine.records.common import HolderShown
from nri_numamem.engine.records.containers import Adopted, NotManaged, Placed, Unplaced
from nri_numamem.engine.records.running import ContainerEnded
from nri_numamem.memorymanager import QosClass, Rejection, remove_container
from nri_numamem.memorymanager.holder import HolderKey, HolderKind, container_name
from nri_numamem.memorymanager.rejection import TOPOLOGY
from nri_numamem.numa import NodeSet
from nri_numamem.topologymanager import Placement

_P = TypeVar("_P", bound=Placed)
_U = TypeVar("_U", bound=Unplaced)

_NOTHING: Mapping[str, int] = {}

# With room for the id of the refusal, which the daemon adds: 900 characters in all.
TEXT_LIMIT = 880

# Room for remedy and kubelet's sentence; names that leave less are shortened.
_MESSAGE_LEAST = 350
_SHORT_NAME_CHARACTERS = 60

# The largest holders; a longer list does not help to choose.
HOLDERS_LIMIT = 16

NO_MEMORY_LIMIT = "no_memory_limit"
NO_CPU_LIMIT = "no_cpu_limit"
CPU_REQUEST_BELOW_LIMIT = "cpu_request_below_limit"


def not_managed(
    pod: PodSandbox, container: Container, cause: str, *, is_invalid: bool = False
) -> NotManaged:
    """Record a container that is not managed; `is_invalid` if its cpuset.mems cannot be parsed."""
    qos = qos_of_cgroup_parent(pod.cgroup_parent)
    return NotManaged(
        names=container_names(pod, container),
        cause=cause,
        qos_class=qos.value,
        memory_limit_bytes=container.memory_limit_bytes,
        pod_memory_limit_bytes=pod.memory_limit_bytes,
        qos_obstacles=(*qos_obstacles(container),) if qos is QosClass.BURSTABLE else None,
        alternate=is_invalid,
    )


def qos_obstacles(container: Container) -> Iterator[str]:
    """Yield what of a container keeps its pod from being Guaranteed, as far as NRI shows it.

    NRI shows no memory request. Source: Kubernetes' qos.ComputePodQOS, and the kubelet's
    conversions to CPU shares and quota.
    """
    if container.memory_limit_bytes is None:
        yield NO_MEMORY_LIMIT
    limit = container.cpu_limit_millicores
    if limit is None:
        yield NO_CPU_LIMIT
    elif container.cpu_shares is not None and container.cpu_shares < limit * 1024 // 1000:
        yield CPU_REQUEST_BELOW_LIMIT


def placed_as(
    kind: type[_P],
    before: EngineState,
    state: EngineState,
    new: ToPlace,
    placed: Placement,
    adjustment: Adjustment,
    updates: tuple[Update, ...] = (),
    released: Mapping[str, int] = _NOTHING,
) -> _P:
    """Record a container that is pinned: `before` is the state of the decision, `state` the next.

    In pod scope `before` has the reservation of the pod as a whole. `updates` give
    more nodes to containers that share memory with this one. `released` is what the pod's ended
    containers held beyond the pod's limit.
    """
    choice, request = choice_of(before, new, placed), new.request
    return kind(
        names=container_names(new.pod, new.container),
        request_bytes=request.resources,
        considered=considered(choice, state),
        merged_hint=placed.hint,
        nodes=placed.nodes,
        adjustment=adjustment_shown(adjustment, placed.nodes),
        hugepage_source=request.hugepage_source.value if request.hugepage_limits else "",
        even_nodes=0 if request.chooser is None else request.chooser.node_count,
        shares_pod_memory=request.is_shared,
        extended_container_ids=tuple(update.container_id for update in updates),
        released_bytes=released,
    )


def choice_of(before: EngineState, new: ToPlace, placed: Placement) -> Choice:
    """Return a placement as a choice between node sets; `before` is the state of the decision."""
    pool = before.blocks((new.pod.uid, HolderKind.POD))
    return Choice(
        placed.before,
        new.pod.uid,
        new.request.resources,
        placed.nodes,
        new.others,
        pool[0].numa_affinity if pool else None,
        before.nodes_before((new.pod.uid, new.container.name)),
        new.request.chooser,
    )


def adopted(
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    nodes: NodeSet,
    shortfall: Mapping[str, int],
    excluded: NodeSet,
    cause: str = "",
) -> Adopted:
    """Record a container that has its NUMA nodes already; `shortfall` exceeds their allocatable.

    `excluded` are the machine's excluded nodes. Where the container has one of them there is no
    shortfall, since that node may hold any number of bytes.
    """
    is_on_excluded = not nodes.isdisjoint(excluded)
    return Adopted(
        names=container_names(pod, container),
        request_bytes=request.resources,
        nodes=nodes,
        free_bytes=free_bytes(state.accounting, request.resources, nodes),
        shortfall_bytes={} if is_on_excluded else shortfall,
        excluded_nodes=nodes & excluded if is_on_excluded else None,
        alternate=is_on_excluded or bool(shortfall),
        cause=cause,
    )


def choice_of_rejected(state: EngineState, new: ToPlace, rejection: Rejection) -> Choice:
    """Return a rejected request as a choice between node sets; `state` is that of the decision.

    It is the request of the pod if the pod was rejected as a whole.
    """
    uid, accounting, resources = new.pod.uid, state.accounting, new.request.resources
    if rejection.is_of_pod:
        accounting = remove_container(accounting, uid, HolderKind.POD)
        resources = request_of_pod(new.pod) or resources
    return Choice(
        accounting,
        uid,
        resources,
        others=new.others,
        previous_nodes=state.nodes_before(new.key),
        chooser=new.request.chooser,
        common=rejection.common,
    )


def unplaced_as(
    kind: type[_U], context: Context, state: EngineState, new: ToPlace, rejection: Rejection
) -> _U:
    """Record a container for which no nodes were found, in the state of the decision.

    In pod scope the request is the pod's, as long as the pod is not placed.
    """
    choice, request = choice_of_rejected(state, new, rejection), new.request
    return kind(
        names=container_names(new.pod, new.container),
        request_bytes=request.resources,
        considered=considered(choice, state),
        used_outside_of_pods_bytes=used_outside_of_pods(state, choice.resources),
        even_nodes=0 if request.chooser is None else request.chooser.node_count,
        partition=partition_of(context, new.pod),
        set_aside=set_aside_texts(context, state, new.pod),
        policy=context.policy.topology_manager_policy,
        reason=rejection.reason,
        message=rejection.message,
        remedies=tuple(remedy_shown(each) for each in rejection.remedies),
        holders=holders_of(state, choice.uid, choice.resources),
        pod_request_bytes=choice.resources if rejection.is_of_pod else {},
    )


def rejection_text(
    context: Context,
    pod: PodSandbox,
    container: Container,
    rejection: Rejection,
    others: OtherProviders,
) -> str:
    """Return the text of the reply, which `kubectl describe pod` shows, TEXT_LIMIT characters.

    It names no other pod. The same facts give the same text.
    """
    reason = rejection.reason
    if reason == TOPOLOGY:
        reason += f" (topologyManagerPolicy {context.policy.topology_manager_policy})"
    hints = f" with {others}" if others != NO_OTHER_PROVIDERS else ""
    end = f"refused, {reason}{hints}: "
    head = f"{_named(pod, container, NAME_CHARACTERS)} {end}"
    if TEXT_LIMIT - len(head) < _MESSAGE_LEAST:
        head = f"{_named(pod, container, _SHORT_NAME_CHARACTERS)} {end}"
    room = TEXT_LIMIT - len(head)
    if not rejection.is_of_pod:
        return f"{head}{rejection.message_within(room)}"
    whole = "the whole pod's "
    return head + rejection.message_within(room - len(whole)).replace(
        "requested ", f"requested {whole}", 1
    )


def _named(pod: PodSandbox, container: Container, limit: int) -> str:
    return f"{PREFIX}container {cut(container.name, limit)} of pod {pod_name(pod, limit)}"


def ended(state: EngineState, holder: Holder) -> ContainerEnded:
    """Record a container that ended; its pod may reuse the memory."""
    reusable = {block.type: block.size for block in state.blocks(holder.key) or ()}
    return ContainerEnded(names=holder_names(state, holder), reusable_bytes=reusable)


def holders_of(state: EngineState, uid: str, resources: Iterable[str]) -> tuple[HolderShown, ...]:
    """Return the largest holders of the resources, without those of pod `uid`.

    The largest one comes first. Earmarks, and holders on nodes that this accounting lacks, are left
    out.
    """
    wanted = frozenset(resources)
    found: list[tuple[int, HolderKey, NodeSet, dict[str, int]]] = []
    for other, containers in state.accounting.assignments.items():
        if other == uid or other in state.earmarks:
            continue
        for name, blocks in containers.items():
            held = {block.type: block.size for block in blocks if block.type in wanted}
            nodes = blocks[0].numa_affinity
            is_seen = any(node_id in state.accounting.machine_state for node_id in nodes)
            if is_seen and any(held.values()):
                found.append((-sum(held.values()), (other, name), nodes, held))
    found.sort(key=lambda entry: entry[:2])
    return tuple(_holder(state, key, nodes, held) for _, key, nodes, held in found[:HOLDERS_LIMIT])


def _holder(
    state: EngineState, key: HolderKey, nodes: NodeSet, held: dict[str, int]
) -> HolderShown:
    holder = state.holders.get(key)
    pod = None if holder is None else state.pods.get(holder.sandbox_id)
    return HolderShown(
        namespace="" if pod is None else pod.namespace,
        pod="" if pod is None else pod.name,
        container=container_name(key[1]),
        pod_uid=key[0],
        nodes=nodes,
        held_bytes=held,
    )
