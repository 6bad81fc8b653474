"""The remedy for a decision, and the command that tries it, from its record alone."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nri_numamem.cli.explain.select import Names, names_of
from nri_numamem.engine.records.containers import (
    CPU_REQUEST_BELOW_LIMIT,
    NO_CPU_LIMIT,
    NO_MEMORY_LIMIT,
)
from nri_numamem.numa import NodeSet, humanize_bytes
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.observe.history.lines import Entry

_OBSTACLES = {
    NO_MEMORY_LIMIT: "no memory limit",
    NO_CPU_LIMIT: "no CPU limit",
    CPU_REQUEST_BELOW_LIMIT: "a CPU request below its limit",
}

_REMEDY = "remedy: "


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do; both are "" if nothing needs to be done."""

    remedy: str = ""
    commands: tuple[str, ...] = ()
    """Command lines that try it."""


def advice_of(names: Names, decision: Entry | None, siblings: Sequence[Entry]) -> Advice:
    """Return the advice for the last decision on a container."""
    if decision is None:
        return Advice()
    match decision.event:
        case "rejected" | "pod_rejected" | "unpinned_no_capacity" | "running_unpinned_no_capacity":
            return _for_refusal(names, decision)
        case "not_managed":
            return Advice(_for_not_managed(decision, siblings), _commands(names))
        case "memory_policy_rejected":
            return Advice("correct the annotation or the setting memoryPolicy")
        case "burstable_not_pinned" | "burstable_unpinned":
            return Advice("see docs/burstable-pods.md; a new container is pinned if it can be")
        case "resize_rejected":
            remedy = "free memory on its NUMA nodes, or create the pod anew; the kubelet retries"
            return Advice(remedy, _commands(names))
        case "request_timed_out" | "internal_error":
            return Advice("restart the pod; the next Synchronize pins it too, if it fits")
        case "unreported_container_found" if decision.fields.get("outcome") == "unpinned":
            return Advice("free memory on the NUMA nodes, then restart the pod", _commands(names))
        case _:
            return Advice(str(decision.fields.get("remedy") or ""))


def obstacles_text(entry: Entry) -> str:
    """Return what keeps the pod of a container from being Guaranteed: "no memory limit, ..."."""
    known = entry.fields.get("qos_obstacles")
    found = known if isinstance(known, list) else []
    return " and ".join(_OBSTACLES.get(str(one), str(one)) for one in found)


def _commands(names: Names, without: str = "") -> tuple[str, ...]:
    get = shlex.join(["kubectl", "get", "pod", "-n", names.namespace, names.pod, "-o", "yaml"])
    options = f"--without {shlex.quote(without)} " if without else ""
    return (f"{get} > pod.yaml", f"nri-numamem simulate --now {options}pod.yaml")


def advice_to(names: Names, remedy: str) -> Advice:
    """Return a remedy with the commands that try the pod as it is."""
    return Advice(remedy, _commands(names))


def _for_refusal(names: Names, entry: Entry) -> Advice:
    request = request_of(entry)
    pages = _outside_of_pods(entry, request)
    if pages:
        return advice_to(names, pages)
    for node_id, holder in _sufficient_holders(entry, request):
        pod = f"{holder.get('namespace')}/{holder.get('pod')}"
        held = amounts_text(holder["held_bytes"])
        remedy = f"ending {pod} frees {held} on NUMA node {node_id}, which then holds the request"
        return Advice(remedy, _commands(names, pod))
    message = str(entry.fields.get("message") or "")
    remedy = message.partition(_REMEDY)[2].partition("; ")[0]
    return Advice(remedy or "free memory on the NUMA nodes, or request less", _commands(names))


def _outside_of_pods(entry: Entry, request: Mapping[str, int]) -> str:
    """Return the remedy if hugepages used outside of pods are all that a single node lacks.

    The node must be one of the CPUs and of all devices. "" otherwise.
    """
    for one in entry.fields.get("candidates") or ():
        nodes = str(one.get("nodes"))
        if one.get("rule") != "not_enough_free" or not nodes.isdecimal():
            continue
        free, used = free_on(entry, nodes), used_outside_on(entry, nodes)
        fits = all(free.get(name, 0) + used.get(name, 0) >= n for name, n in request.items())
        if fits and all(int(nodes) in hint for hint in _hinted_nodes(entry)):
            return (
                f"free {amounts_text(used)} used outside of pods on NUMA node {nodes}, which then "
                "holds the request"
            )
    return ""


def _hinted_nodes(entry: Entry) -> Iterator[NodeSet]:
    """Yield the nodes of the CPUs, and of each device and network interface."""
    for provider, hint in (entry.fields.get("hints") or {}).items():
        if provider != MEMORY and hint:
            found = hint.values() if isinstance(hint, dict) else hint
            texts = [found] if isinstance(found, str) else found
            yield from (NodeSet.parse(str(nodes)) for nodes in texts if nodes)


def _sufficient_holders(
    entry: Entry, request: Mapping[str, int]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield single nodes and holders whose end makes the request fit, the smallest first."""
    free = free_of(entry)
    candidates = entry.fields.get("candidates") or ()
    full = {str(one.get("nodes")) for one in candidates if one.get("rule") == "not_enough_free"}
    for holder in reversed(entry.fields.get("holders") or ()):
        nodes = str(holder.get("nodes"))
        if nodes in full and nodes in free and holder.get("pod"):
            held, left = holder["held_bytes"], free[nodes]
            if all(left.get(name, 0) + held.get(name, 0) >= n for name, n in request.items()):
                yield int(nodes), holder


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
