"""The records of the engine's decisions: what was asked, what was given, and why.

One frozen value per decision; log line, metrics and explanations are made of the same one. Keys
are in the order in which a reader needs them; amounts are bytes, nodes in the kernel's list form.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.context import Context, Placed
from nri_numamem.engine.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.free import free
from nri_numamem.engine.plan import Record, RecordValue, Update
from nri_numamem.engine.providers import CPU, DEVICES, Others
from nri_numamem.engine.request import Request
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import Block, Hint, NodeSet, Rejection

# What comes back through `kubectl describe pod` begins with whose words these are.
PREFIX = "numamem: "

Fields = dict[str, RecordValue]


def left_alone(pod: PodSandbox, container: Container, why: str, level: str = "debug") -> Record:
    """Record a container that is none of our business."""
    return Record("left alone", level, {**_who(pod, container), "why": why})


def admitted(
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    placed: Placed,
    others: Others,
) -> Record:
    """Record a container that was given its nodes."""
    fields: Fields = {
        **_who(pod, container),
        "request": dict(request.resources),
        **_hints(others),
        "hint": _hint(placed.hint),
        "nodes": str(placed.nodes),
        "free": free(state, request.resources),
    }
    if request.hugepage_limits:
        fields["hugepages_from"] = request.hugepage_source.value
    return Record("admitted", fields=fields)


def adopted(
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> Record:
    """Record a container that had its nodes; `shortfall` is what the books could not hold."""
    fields: Fields = {
        **_who(pod, container),
        "request": dict(request.resources),
        "nodes": str(nodes),
        "free": free(state, request.resources),
    }
    if shortfall:
        fields["does_not_fit"] = dict(shortfall)
    return Record("adopted", "warning" if shortfall else "info", fields)


def rejected(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    rejection: Rejection,
    others: Others,
) -> Record:
    """Record a container for which no nodes were found."""
    fields: Fields = {
        **_who(pod, container),
        "request": dict(request.resources),
        **_hints(others),
        "policy": context.settings.topology_manager_policy,
        "reason": rejection.reason,
        "message": rejection.message,
        "free": free(state, request.resources),
    }
    return Record("rejected", "warning", fields)


def refusal_text(
    pod: PodSandbox, container: Container, rejection: Rejection, others: Others
) -> str:
    """Return what the runtime is told, and with it the pod's owner."""
    where = f" with {others}" if others else ""
    return (
        f"{PREFIX}container {container.name} of pod {pod.namespace}/{pod.name} refused, "
        f"{rejection.reason}{where}: {rejection.message}"
    )


def pod_admitted(
    state: EngineState, pod: PodSandbox, request: Mapping[str, int], placed: Placed
) -> Record:
    """Record a pod that was given its nodes as a whole."""
    fields: Fields = {
        **which(pod),
        "request": dict(request),
        "hint": _hint(placed.hint),
        "nodes": str(placed.nodes),
        "free": free(state, request),
    }
    return Record("pod admitted", fields=fields)


def pod_adopted(
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> Record:
    """Record a pod whose nodes have less room than the rest of its sum."""
    fields: Fields = {
        **which(pod),
        "request": dict(request),
        "nodes": str(nodes),
        "free": free(state, request),
        "does_not_fit": dict(shortfall),
    }
    return Record("pod adopted", "warning", fields)


def pod_rejected(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    rejection: Rejection,
) -> Record:
    """Record a pod for which no nodes were found; its containers will ask again."""
    fields: Fields = {
        **which(pod),
        "request": dict(request),
        "policy": context.settings.topology_manager_policy,
        "reason": rejection.reason,
        "message": rejection.message,
        "free": free(state, request),
    }
    return Record("pod rejected", "warning", fields)


def ended(state: EngineState, pod: PodSandbox, holder: Holder) -> Record:
    """Record a container that stopped; its pod keeps what it held."""
    return Record(
        "container ended",
        fields={
            "pod": pod.name,
            "namespace": pod.namespace,
            "container": holder.key[1],
            "pod_uid": holder.key[0],
            "container_id": holder.container_id,
            "kept_for_pod": {b.type: b.size for b in state.blocks(holder.key) or ()},
        },
    )


def given_up(holder: Holder, blocks: tuple[Block, ...]) -> Record:
    """Record memory that an earlier process held for a pod, and that is not to be had any more."""
    return Record(
        "held memory given up",
        "warning",
        {
            "pod_uid": holder.key[0],
            "container": holder.key[1],
            "request": {block.type: block.size for block in blocks},
            "nodes": str(blocks[0].numa_affinity),
            "why": "its nodes are gone, or serve another group by now",
        },
    )


def released(state: EngineState, pod: PodSandbox, holders: Iterable[Holder]) -> Record:
    """Record a pod that ended, and with it what it held."""
    return Record(
        "pod released",
        fields={
            **which(pod),
            # The pool of a pod that was placed as a whole has no name.
            "containers": [holder.key[1] for holder in holders if holder.key[1]],
            "free": free(state, {"memory": 0}),
        },
    )


def synchronized(
    state: EngineState, event: Synchronize, adopted_count: int, updates: list[Update]
) -> Record:
    """Record that the books were made anew from what the runtime told."""
    return Record(
        "synchronized",
        fields={
            "pods": len(event.pods),
            "containers": len(event.containers),
            "adopted": adopted_count,
            "updated": len(updates),
            "free": free(state, {"memory": 0}),
        },
    )


def sent_again(pod: PodSandbox, container: Container, nodes: NodeSet, why: str) -> Record:
    """Record that runtime and cgroup did not agree on a container's nodes; it gets `nodes`."""
    return Record(
        "sent again",
        fields={
            **_who(pod, container),
            "nodes": str(nodes),
            "in_runtime": container.cpuset_mems,
            "in_cgroup": str(container.cgroup_mems),
            "why": why,
        },
    )


def which(pod: PodSandbox) -> Fields:
    """Return the fields that name a pod."""
    return {"pod": pod.name, "namespace": pod.namespace, "pod_uid": pod.uid}


def _hints(others: Others) -> dict[str, RecordValue]:
    hints: dict[str, RecordValue] = {}
    if others.cpu is not None:
        hints[CPU] = str(others.cpu)
    if others.devices:
        hints[DEVICES] = [str(nodes) for nodes in others.devices]
    return {"hints": hints} if hints else {}


def _who(pod: PodSandbox, container: Container) -> Fields:
    return {
        "pod": pod.name,
        "namespace": pod.namespace,
        "container": container.name,
        "pod_uid": pod.uid,
        "container_id": container.container_id,
    }


def _hint(hint: Hint) -> dict[str, RecordValue]:
    affinity = None if hint.affinity is None else str(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}
