"""Alignment: whether a container's memory shares a NUMA node with its CPUs and each of its devices.

Under ``best-effort`` memory can be on no node of the CPUs or of a device. Such a container runs,
and its holder keeps the CPUs and devices in question until the container ends. A record is made
when a container becomes misaligned, not at every Synchronize.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nri_numamem.engine.admission.records import choice_of
from nri_numamem.engine.core.annotations import MOVABLE
from nri_numamem.engine.core.candidates import Choice, reason_in
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import requested_millicores
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import container_names, provider_hints
from nri_numamem.engine.core.providers import (
    CPU,
    DEVICES,
    NETWORK,
    NO_OTHER_PROVIDERS,
    OtherProviders,
)
from nri_numamem.engine.core.request import Request, ToPlace
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.containers import Misaligned
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.holder import HolderKey
from nri_numamem.numa import NodeSet
from nri_numamem.topologymanager import Placement

ADOPTED = "adopted"
"""The cause where the plugin did not choose the nodes."""


def holder_of(
    pod: PodSandbox,
    container: Container,
    request: Request,
    misaligned: OtherProviders = NO_OTHER_PROVIDERS,
) -> Holder:
    """Return the holder of a container that runs."""
    is_movable = bool(pod.annotations) and pod.annotation(MOVABLE, container.name) == "true"
    return Holder(
        container.container_id,
        pod.sandbox_id,
        (pod.uid, container.name),
        misaligned=misaligned,
        is_shared=request.is_shared,
        cpu_millicores=requested_millicores(container),
        is_movable=is_movable,
    )


def placed(
    before: EngineState, new: ToPlace, placement: Placement
) -> tuple[Holder, tuple[Record, ...]]:
    """Return the holder of a container that was placed, and a record if it is misaligned.

    `before` is the state of the decision.
    """
    pod, container, request, others = new.pod, new.container, new.request, new.others
    if others is NO_OTHER_PROVIDERS:
        return holder_of(pod, container, request), ()
    misaligned = others.misaligned_with(placement.nodes)
    holder = holder_of(pod, container, request, misaligned)
    if misaligned == NO_OTHER_PROVIDERS:
        return holder, ()
    choice = choice_of(before, new, placement)
    return holder, (misaligned_record(choice, pod, container, misaligned),)


def with_preset_nodes(
    context: Context, state: EngineState, pod: PodSandbox, container: Container, nodes: NodeSet
) -> tuple[EngineState, tuple[Record, ...]]:
    """Return the state in which a container with preset nodes shows what it is not aligned with."""
    misaligned = context.other_providers_of(container).misaligned_with(nodes)
    holder = state.holder(container.container_id)
    if holder is None or misaligned == NO_OTHER_PROVIDERS:
        return state, ()
    after = state.with_holder(replace(holder, misaligned=misaligned), state.accounting)
    return after, (found_misaligned(pod, container, nodes, misaligned),)


def with_nodes(holder: Holder, nodes: NodeSet) -> Holder:
    """Return the holder of a container that got more nodes; those that it shares now are gone."""
    misaligned = holder.misaligned.misaligned_with(nodes)
    return holder if misaligned == holder.misaligned else replace(holder, misaligned=misaligned)


def synchronize(
    context: Context, old: EngineState, new: EngineState, containers: Iterable[Container]
) -> tuple[EngineState, list[Record]]:
    """Return the state in which running containers show what they are not aligned with.

    The runtime's list has the CPUs; devices are known from the creation, by `old`.
    """
    changed, found = dict[HolderKey, Holder](), list[Record]()
    cpus: dict[tuple[str, str, int | None], NodeSet | None] = {}
    for container in containers:
        holder = new.holder(container.container_id)
        before = old.holder(container.container_id)
        if holder is None or holder.ended:
            continue
        known = NO_OTHER_PROVIDERS if before is None else before.misaligned
        kind = (container.cpuset_cpus, container.cpuset_mems, container.cpu_shares)
        if kind not in cpus:  # most containers have the CPUs of the shared pool
            cpus[kind] = context.other_providers_of(container).cpu
        cpu, blocks = cpus[kind], new.blocks(holder.key)
        has_hints = cpu is not None or known.devices or known.interfaces
        if not blocks or not (has_hints or holder.misaligned != NO_OTHER_PROVIDERS):
            continue
        near = OtherProviders(known.devices, cpu, known.interfaces)
        nodes = blocks[0].numa_affinity
        misaligned = near.misaligned_with(nodes)
        if misaligned != holder.misaligned:
            changed[holder.key] = replace(holder, misaligned=misaligned)
        if misaligned not in (NO_OTHER_PROVIDERS, known, holder.misaligned):
            pod = new.pods[holder.sandbox_id]
            found.append(found_misaligned(pod, container, nodes, misaligned))
    if changed:
        new = new.with_all(new.accounting, {**new.holders, **changed}, new.keys)
    return new, found


def misaligned_containers(state: EngineState) -> Iterable[tuple[Holder, OtherProviders]]:
    """Return the running containers whose memory is not aligned, with what it should be near."""
    for holder in state.holders.values():
        if not holder.ended and holder.misaligned != NO_OTHER_PROVIDERS:
            yield holder, holder.misaligned


def misaligned_record(
    choice: Choice, pod: PodSandbox, container: Container, remote: OtherProviders
) -> Misaligned:
    """Record a container that was placed away from `remote`, a part of its CPUs and devices."""
    causes = {name: reason_in(choice, nodes).rule.value for name, nodes in _first(remote).items()}
    return _misaligned(pod, container, choice.nodes or NodeSet(), remote, causes)


def found_misaligned(
    pod: PodSandbox, container: Container, nodes: NodeSet, remote: OtherProviders
) -> Misaligned:
    """Record a container that already has nodes away from `remote`."""
    return _misaligned(pod, container, nodes, remote, dict.fromkeys(_first(remote), ADOPTED))


def _first(remote: OtherProviders) -> dict[str, NodeSet]:
    """Return the provider's name -> its nodes, those of its first device or interface."""
    found = {} if remote.cpu is None else {CPU: remote.cpu}
    if remote.devices:
        found[DEVICES] = remote.devices[0]
    if remote.interfaces:
        found[NETWORK] = remote.interfaces[0].nodes
    return found


def _misaligned(
    pod: PodSandbox,
    container: Container,
    nodes: NodeSet,
    remote: OtherProviders,
    causes: Mapping[str, str],
) -> Misaligned:
    return Misaligned(
        names=container_names(pod, container),
        nodes=nodes,
        misaligned=provider_hints(remote),
        causes=causes,
    )
