"""The remedies for a decision, and the command that tries them, from its record alone."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.cli.explain.select import Names, names_of
from nri_numamem.engine.admission.records import (
    CPU_REQUEST_BELOW_LIMIT,
    NO_CPU_LIMIT,
    NO_MEMORY_LIMIT,
)
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records import connection, containers, pods, running
from nri_numamem.engine.records.common import UNPINNED, Decided, RemedyShown
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Amounts, Record
from nri_numamem.numa import NodeSet, humanize_bytes
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.observe.history.records import Recorded

_OBSTACLES = {
    NO_MEMORY_LIMIT: "no memory limit",
    NO_CPU_LIMIT: "no CPU limit",
    CPU_REQUEST_BELOW_LIMIT: "a CPU request below its limit",
}


Requesting = (
    Decided | containers.Adopted | running.Resized | running.ResizeRejected | pods.PodAdopted
)
"""Records of decisions on a request, with the free bytes after it."""

_AGAIN = "restart the pod; the next Synchronize pins it too, if it fits"
_BURSTABLE = "see docs/burstable-pods.md; a new container is pinned if it can be"
_ADVICE: Mapping[type[Record], str] = {
    MemoryPolicyRejected: "correct the annotation or the setting memoryPolicy",
    burstable_pods.BurstableNotPinned: _BURSTABLE,
    burstable_pods.BurstableUnpinned: _BURSTABLE,
    connection.RequestTimedOut: _AGAIN,
    connection.InternalError: _AGAIN,
}
_WHEN_IT_FITS = "restart the pod when it fits; the commands show whether it does"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do; empty if nothing needs to be done."""

    remedies: tuple[Mapping[str, RecordValue], ...] = ()
    """Alternatives, the best first: `text`, and of a tried remedy its `kind` and parameters."""
    commands: tuple[str, ...] = ()
    """Command lines that try it."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the remedies as texts."""
        return tuple(str(each.get("text")) for each in self.remedies)


def _advice(text: str, commands: tuple[str, ...] = ()) -> Advice:
    return Advice(({"text": text},) if text else (), commands)


def advice_of(names: Names, decision: Recorded | None, siblings: Sequence[Recorded]) -> Advice:
    """Return the advice for the last decision on a container."""
    if decision is None:
        return Advice()
    match decision.record:
        case containers.Unplaced() as record:
            return Advice(_tried(record.remedies), commands_for(names))
        case pods.PodRejected():
            return Advice((), commands_for(names))
        case running.ResizeRejected() as record:  # the kubelet retries the resize
            return Advice(_tried(record.remedies))
        case containers.NotManaged() as record:
            return _advice(_for_not_managed(record, siblings), commands_for(names))
        case containers.UnreportedContainerFound(outcome=outcome) if outcome == UNPINNED:
            return _advice(_WHEN_IT_FITS, commands_for(names))
        case running.CpusetMemsMissing() as record:
            return _advice(record.remedy)
        case record:
            return _advice(_ADVICE.get(type(record), ""))


def obstacles_text(entry: Recorded) -> str:
    """Return what keeps the pod of a container from being Guaranteed: "no memory limit, ..."."""
    record = entry.record
    found = record.qos_obstacles if isinstance(record, containers.NotManaged) else None
    return " and ".join(_OBSTACLES.get(one, one) for one in found or ())


def commands_for(names: Names, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the commands that try a pod now, without some pods of the host."""
    get = shlex.join(["kubectl", "get", "pod", "-n", names.namespace, names.pod, "-o", "yaml"])
    options = "".join(f"--without {shlex.quote(pod)} " for pod in without)
    return (f"{get} > pod.yaml", f"nri-numamem simulate --now {options}pod.yaml")


def advice_to(names: Names, remedy: str) -> Advice:
    """Return a remedy with the commands that try the pod as it is."""
    return _advice(remedy, commands_for(names))


def _tried(remedies: Iterable[RemedyShown]) -> tuple[Mapping[str, RecordValue], ...]:
    """Return the remedies that were tried at the decision."""
    return tuple(fields_of(each) for each in remedies)


def _for_not_managed(decision: containers.NotManaged, siblings: Sequence[Recorded]) -> str:
    if decision.qos_class != "Burstable":
        if "memoryManagerPolicy" in decision.cause:
            return "set memoryManagerPolicy Static"
        return "give every container of the pod equal limits and requests for cpu and memory"
    broken = [names_of(entry).container for entry in siblings if obstacles_text(entry)]
    if broken:
        who = ", ".join(broken)
        return (
            f"give {who} equal limits and requests for cpu and memory; the pod becomes Guaranteed "
            "when all its containers have them"
        )
    return (
        "compare requests.memory with limits.memory of every container of the pod: NRI does not "
        "show memory requests"
    )


def request_of(entry: Recorded) -> Amounts:
    """Return what the candidates were for: resource -> bytes, without zeros."""
    content = containers.content_of(entry.record)
    request: Amounts = {}
    if isinstance(content, Requesting):
        request = content.request_bytes
    if isinstance(content, containers.Unplaced) and content.pod_request_bytes:
        request = content.pod_request_bytes
    return {name: size for name, size in request.items() if size}


def free_on(entry: Recorded, nodes: NodeSet) -> Amounts:
    """Return the free bytes of a node set in an entry: resource -> bytes."""
    content = containers.content_of(entry.record)
    return _summed(content.free_bytes if isinstance(content, Requesting) else {}, nodes)


def used_outside_on(entry: Recorded, nodes: NodeSet) -> Amounts:
    """Return the hugepages of a node set that are used outside of pods: resource -> bytes."""
    content = containers.content_of(entry.record)
    if not isinstance(content, containers.Unplaced | pods.PodRejected):
        return {}
    return _summed(content.used_outside_of_pods_bytes, nodes)


def _summed(amounts: Mapping[int, Amounts], nodes: NodeSet) -> Amounts:
    sums: dict[str, int] = {}
    for node_id in nodes:
        for name, size in amounts.get(node_id, {}).items():
            sums[name] = sums.get(name, 0) + size
    return sums


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return "40Gi memory, 4Gi hugepages-1Gi", memory first."""
    order = sorted(amounts, key=lambda name: (name != MEMORY, name))
    found = [f"{humanize_bytes(amounts[name])} {name}" for name in order if amounts[name]]
    return ", ".join(found) or "nothing"
