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
from nri_numamem.numa import NodeSet, humanize_bytes
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.observe.history.lines import Entry

_OBSTACLES = {
    NO_MEMORY_LIMIT: "no memory limit",
    NO_CPU_LIMIT: "no CPU limit",
    CPU_REQUEST_BELOW_LIMIT: "a CPU request below its limit",
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


def advice_of(names: Names, decision: Entry | None, siblings: Sequence[Entry]) -> Advice:
    """Return the advice for the last decision on a container."""
    if decision is None:
        return Advice()
    match decision.event:
        case "rejected" | "pod_rejected" | "unpinned_no_capacity" | "running_unpinned_no_capacity":
            return _for_refusal(names, decision)
        case "resize_rejected":  # the kubelet retries the resize of the running container
            return Advice(_tried(decision))
        case "not_managed":
            return _advice(_for_not_managed(decision, siblings), commands_for(names))
        case "memory_policy_rejected":
            return _advice("correct the annotation or the setting memoryPolicy")
        case "burstable_not_pinned" | "burstable_unpinned":
            return _advice("see docs/burstable-pods.md; a new container is pinned if it can be")
        case "request_timed_out" | "internal_error":
            return _advice("restart the pod; the next Synchronize pins it too, if it fits")
        case "unreported_container_found" if decision.fields.get("outcome") == "unpinned":
            return _advice(_WHEN_IT_FITS, commands_for(names))
        case _:
            return _advice(str(decision.fields.get("remedy") or ""))


def obstacles_text(entry: Entry) -> str:
    """Return what keeps the pod of a container from being Guaranteed: "no memory limit, ..."."""
    known = entry.fields.get("qos_obstacles")
    found = known if isinstance(known, list) else []
    return " and ".join(_OBSTACLES.get(str(one), str(one)) for one in found)


def commands_for(names: Names, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the commands that try a pod now, without some pods of the host."""
    get = shlex.join(["kubectl", "get", "pod", "-n", names.namespace, names.pod, "-o", "yaml"])
    options = "".join(f"--without {shlex.quote(pod)} " for pod in without)
    return (f"{get} > pod.yaml", f"nri-numamem simulate --now {options}pod.yaml")


def advice_to(names: Names, remedy: str) -> Advice:
    """Return a remedy with the commands that try the pod as it is."""
    return _advice(remedy, commands_for(names))


def _for_refusal(names: Names, entry: Entry) -> Advice:
    return Advice(_tried(entry), commands_for(names))


def _tried(entry: Entry) -> tuple[Mapping[str, RecordValue], ...]:
    """Return the remedies that were tried at the decision; earlier versions tried none."""
    found = entry.fields.get("remedies")
    return tuple(e for e in found if isinstance(e, dict)) if isinstance(found, list) else ()


def _for_not_managed(decision: Entry, siblings: Sequence[Entry]) -> str:
    if decision.fields.get("qos_class") != "Burstable":
        if "memoryManagerPolicy" in str(decision.fields.get("cause")):
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


def request_of(entry: Entry) -> Mapping[str, int]:
    """Return what the candidates were for: resource -> bytes, without zeros."""
    request = entry.fields.get("pod_request_bytes") or entry.fields.get("request_bytes") or {}
    return {name: size for name, size in request.items() if size}


def free_of(entry: Entry) -> Mapping[str, Mapping[str, int]]:
    """Return the free bytes in an entry: node -> resource -> bytes."""
    free = entry.fields.get("free_bytes")
    return free if isinstance(free, dict) else {}


def free_on(entry: Entry, nodes: str) -> Mapping[str, int]:
    """Return the free bytes of a node set in an entry: resource -> bytes."""
    return _summed(free_of(entry), nodes)


def used_outside_on(entry: Entry, nodes: str) -> Mapping[str, int]:
    """Return the hugepages of a node set that are used outside of pods: resource -> bytes."""
    used = entry.fields.get("used_outside_of_pods_bytes")
    return _summed(used if isinstance(used, dict) else {}, nodes)


def _summed(amounts: Mapping[str, Mapping[str, int]], nodes: str) -> Mapping[str, int]:
    sums: dict[str, int] = {}
    for node_id in NodeSet.parse(nodes):
        for name, size in amounts.get(str(node_id), {}).items():
            sums[name] = sums.get(name, 0) + size
    return sums


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return "40Gi memory, 4Gi hugepages-1Gi", memory first."""
    order = sorted(amounts, key=lambda name: (name != MEMORY, name))
    found = [f"{humanize_bytes(amounts[name])} {name}" for name in order if amounts[name]]
    return ", ".join(found) or "nothing"
