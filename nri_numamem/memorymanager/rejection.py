"""Why a request was rejected, as text for `kubectl describe pod`.

A ``Rejection`` has the kubelet's own error text, the request, and per NUMA node what is free, how
the allocatable amount results, and which rule excluded the node. Nodes with equal text share one
part of the message. If the message is still too long, the origin of the allocatable amounts is
left out, then the nodes that one rule excluded share a part. Hugepages that the kernel cannot
provide, although the accounting has them free, are named too. A remedy follows the facts; the
kubelet's sentence is the end. Other pods are never named, because events have other readers.

The text is computed when it is first read: under `best-effort`, several placements are tried, and
the rejections of all but the last are discarded.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from nri_numamem.memorymanager.candidates import Candidates, free_bytes
from nri_numamem.memorymanager.new_blocks import resource_order
from nri_numamem.memorymanager.state import NodeState, Request, State, Table
from nri_numamem.numa.nodeset import NodeSet
from nri_numamem.numa.preferences import Preferences
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX, MEMORY, humanize_bytes

# Kubernetes events cut a message at 1,024 bytes; runtime and caller add their own words.
MESSAGE_LIMIT = 900

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY = "TopologyAffinityError"
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"

_USE_LESS = "remedy: request less, or use a larger host"


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What one NUMA node had for a request, and which rule excluded it."""

    node_id: int
    tables: Mapping[str, Table]
    """Requested resource -> its table on the node."""
    rule: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason for a rejection, for people and for records."""

    message: str
    """At most 900 characters."""
    per_node: tuple[NodeVerdict, ...] = ()


class Rejection:
    """A rejected request; two rejections are equal if their explanations are."""

    def __init__(
        self,
        reason: str,
        explain: Callable[[], Explanation],
        explain_within: Callable[[int], Explanation] | None = None,
        *,
        is_of_pod: bool = False,
    ) -> None:
        """Take the kubelet's reason, e.g. UnexpectedAdmissionError, and compute the text later.

        `explain_within` computes it for a number of characters.
        """
        self.reason = reason
        self.is_of_pod = is_of_pod
        """Whether the request is that of the pod as a whole, in pod scope."""
        self._explain = explain
        self._explain_within = explain_within

    @cached_property
    def explanation(self) -> Explanation:
        """The explanation, computed once."""
        return self._explain()

    @property
    def message(self) -> str:
        """The explanation's text."""
        return self.explanation.message

    def message_within(self, limit: int) -> str:
        """Return the text with at most `limit` characters, with fewer facts if necessary."""
        if len(self.message) <= limit:
            return self.message
        if self._explain_within is not None:
            return self._explain_within(limit).message
        return f"{self.message[: limit - 3]}..."

    def of_pod(self) -> "Rejection":
        """Return the rejection of a request that is the pod's as a whole."""
        return Rejection(self.reason, self._explain, self._explain_within, is_of_pod=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rejection):
            return NotImplemented
        return (self.reason, self.explanation) == (other.reason, other.explanation)

    def __hash__(self) -> int:
        return hash((self.reason, self.explanation.message))

    def __repr__(self) -> str:
        return f"Rejection({self.reason!r}, {self.explanation!r})"


def allocation_failed(problem: str) -> str:
    """Return the kubelet's sentence around an error of one of its managers."""
    return f"Allocate failed due to [memorymanager] {problem}, which is unexpected"


def reject(
    state: State,
    request: Request,
    candidates: Candidates,
    preferences: Preferences,
    reason: str,
    sentence: str,
) -> Rejection:
    """Reject `request`; `sentence`, the kubelet's error text, is the end of the message."""
    explain = partial(_explain, state, request, candidates, preferences, sentence)
    return Rejection(reason, explain, explain)


def reject_pod(
    state: State, request: Request, outstanding: Request, reason: str, sentence: str
) -> Rejection:
    """Reject the first container of a pod because all nodes together cannot hold the pod.

    `request` is the pod's; `outstanding` is what pods of which containers run still need.
    """
    explain = partial(_explain_pod, state, request, outstanding, sentence)
    return Rejection(reason, explain, explain)


def not_aligned(fact: str) -> Rejection:
    """Reject a container whose CPUs and devices are away from where its memory must be."""
    remedy = "remedy: set topologyManagerPolicy best-effort, or create the pod anew"
    return Rejection(TOPOLOGY, partial(Explanation, f"{fact}; {remedy}; {NOT_ALIGNED}"))


def _explain(
    state: State,
    request: Request,
    candidates: Candidates,
    preferences: Preferences,
    sentence: str,
    limit: int = MESSAGE_LIMIT,
) -> Explanation:
    prefixes = _prefixes(request)
    rule = partial(_rule, state, request=request, prefixes=prefixes)
    verdicts = _verdicts(state, prefixes, rule)
    head = f"requested {_amounts(request)}; {_size(candidates)}"
    fitting = candidates.best(preferences)
    if fitting is not None:
        head += f"; without topology constraints it would fit on {_nodes(tuple(fitting))}"
    remedy = _remedy(verdicts, request, candidates, fitting)
    return _composed(head, verdicts, prefixes, f"{remedy}; {sentence}", limit)


def _explain_pod(
    state: State,
    request: Request,
    outstanding: Request,
    sentence: str,
    limit: int = MESSAGE_LIMIT,
) -> Explanation:
    prefixes = _prefixes(request)
    verdicts = _verdicts(state, prefixes, lambda _: "not enough together with the other nodes")
    free = {name: free_bytes(state, state.machine_state, name) for name in prefixes}
    available = ", ".join(f"{name} {humanize_bytes(size)}" for name, size in free.items())
    head = f"requested {_amounts(request)} for the pod"
    if outstanding:
        head += f"; pods of which some containers run still need {_amounts(outstanding)}"
    head += f"; all NUMA nodes together have {available} free"
    exceeds = any(
        sum(verdict.tables[name].allocatable for verdict in verdicts) < size
        for name, size in request.items()
    )
    remedy = _remedy_of_missing(verdicts, request) or (
        _USE_LESS if exceeds else "remedy: make room for all containers of the pod, or request less"
    )
    why = "refused so that the pod does not start in part"
    return _composed(head, verdicts, prefixes, f"{why}; {remedy}; {sentence}", limit)


def _verdicts(
    state: State, resources: Iterable[str], rule: Callable[[NodeState], str]
) -> tuple[NodeVerdict, ...]:
    return tuple(
        NodeVerdict(node_id, {name: node.table(name) for name in resources}, rule(node))
        for node_id, node in state.machine_state.items()
    )


def _composed(
    head: str,
    verdicts: tuple[NodeVerdict, ...],
    prefixes: Mapping[str, str],
    end: str,
    limit: int,
) -> Explanation:
    """Return the explanation, with as many facts about the nodes as there is room for."""
    room = limit - len(f"; {end}")
    for summary in (partial(_one_by_one, origin=_origin), _one_by_one, _by_rule):
        facts = "; ".join((head, *summary(verdicts, prefixes)))
        if len(facts) <= room:
            return Explanation(f"{facts}; {end}", verdicts)
    return Explanation(f"{facts[: max(0, room - 3)]}...; {end}"[-limit:], verdicts)


def _prefixes(request: Request) -> dict[str, str]:
    """Return resource -> its name in front of an amount; "" if only memory is requested."""
    order = sorted(request, key=resource_order)
    return {resource: "" if order == [MEMORY] else f"{resource} " for resource in order}


def _amounts(request: Request) -> str:
    return ", ".join(
        f"{resource} {humanize_bytes(request[resource], round_up=True)}"
        for resource in sorted(request, key=resource_order)
    )


def _size(candidates: Candidates) -> str:
    """Return how many nodes the request needs at least."""
    if candidates.minimum is None:
        return "exceeds all NUMA nodes together"
    if candidates.minimum == 1:
        return "fits on 1 empty NUMA node"
    return f"fits on {candidates.minimum} empty NUMA nodes"


def _remedy(
    verdicts: tuple[NodeVerdict, ...],
    request: Request,
    candidates: Candidates,
    fitting: NodeSet | None,
) -> str:
    """Return what changes the result; it does not depend on what is free at the moment."""
    missing = _remedy_of_missing(verdicts, request)
    if missing:
        return missing
    if candidates.minimum is None:
        return _USE_LESS
    if fitting is not None:
        where = "the NUMA nodes of its CPUs and devices"
        return f"remedy: make room on {where}, or set topologyManagerPolicy best-effort"
    if candidates.minimum > 1:
        return f"remedy: make room on {candidates.minimum} whole NUMA nodes, or request less"
    large = [
        verdict.node_id
        for verdict in verdicts
        if all(verdict.tables[name].allocatable >= size for name, size in request.items())
    ]
    return f"remedy: make room on {_nodes(large)}"


def _remedy_of_missing(verdicts: tuple[NodeVerdict, ...], request: Request) -> str:
    """Return the remedy for hugepages that the host lacks; "" if it has all sizes."""
    missing = [
        resource
        for resource in sorted(request, key=resource_order)
        if not any(verdict.tables[resource].total for verdict in verdicts)
    ]
    if not missing:
        return ""
    pages = " and ".join(resource.removeprefix(HUGEPAGES_PREFIX) for resource in missing)
    return f"remedy: reserve {' and '.join(missing)}, this host has no {pages} pages"


def _rule(state: State, node: NodeState, request: Request, prefixes: Mapping[str, str]) -> str:
    if len(node.cells) > 1:
        free = [
            f"{prefix}{humanize_bytes(free_bytes(state, node.cells, resource))} free"
            for resource, prefix in prefixes.items()
        ]
        return f"in group {node.cells} with {', '.join(free)}"
    if node.lacks_normal_memory:
        return "no normal memory, only for a set with another node"
    if node.number_of_assignments:
        return "has single-node assignments"
    if any(node.table(resource).allocatable < amount for resource, amount in request.items()):
        return "unused, too small by itself"
    return "unused"


def _origin(resource: str, table: Table) -> str:
    """Return how the allocatable amount results: "8Gi less 1Gi reservedMemory, ..."; or ""."""
    parts = {"reservedMemory": table.system_reserved}
    if resource == MEMORY:
        parts["hugepages"] = table.total - table.system_reserved - table.allocatable
    less = [f"{humanize_bytes(size)} {name}" for name, size in parts.items() if size > 0]
    return f"{humanize_bytes(table.total)} less {', '.join(less)}" if less else ""


def _no_origin(_resource: str, _table: Table) -> str:
    return ""


def _one_by_one(
    verdicts: tuple[NodeVerdict, ...],
    prefixes: Mapping[str, str],
    origin: Callable[[str, Table], str] = _no_origin,
) -> list[str]:
    ids: dict[str, list[int]] = {}
    for verdict in verdicts:
        parts = [
            f"{prefixes[resource]}{humanize_bytes(table.free)} free"
            f" of {humanize_bytes(table.allocatable)} allocatable"
            f"{_notes(origin(resource, table), _non_pod_note(resource, table))}"
            for resource, table in verdict.tables.items()
        ]
        ids.setdefault(", ".join((*parts, verdict.rule)), []).append(verdict.node_id)
    return [f"{_nodes(node_ids)}: {text}" for text, node_ids in ids.items()]


def _non_pod_note(resource: str, table: Table) -> str:
    size_bytes = _non_pod_bytes(resource, table)
    return f"{humanize_bytes(size_bytes)} used outside of pods" if size_bytes else ""


def _notes(*notes: str) -> str:
    text = "; ".join(note for note in notes if note)
    return f" ({text})" if text else ""


def _non_pod_bytes(resource: str, table: Table) -> int:
    """Return the masked bytes of a hugepage pool (see ``hugepage_pools``)."""
    return 0 if resource == MEMORY else max(0, table.allocatable - table.reserved - table.free)


def _by_rule(verdicts: tuple[NodeVerdict, ...], prefixes: Mapping[str, str]) -> list[str]:
    ids: dict[str, list[int]] = {}
    most: dict[tuple[str, str], int] = {}
    non_pod: dict[str, int] = {}
    for verdict in verdicts:
        rule = "in other groups" if verdict.rule.startswith("in group ") else verdict.rule
        ids.setdefault(rule, []).append(verdict.node_id)
        for resource, table in verdict.tables.items():
            non_pod[resource] = non_pod.get(resource, 0) + _non_pod_bytes(resource, table)
            most[rule, resource] = max(most.get((rule, resource), 0), table.free)

    def text(rule: str) -> str:
        parts = [
            f"{prefix}at most {humanize_bytes(most[rule, resource])} free"
            for resource, prefix in prefixes.items()
        ]
        return ", ".join((*parts, rule))

    notes = [
        f"{humanize_bytes(size_bytes)} of {resource} used outside of pods"
        for resource, size_bytes in non_pod.items()
        if size_bytes
    ]
    return notes + [f"{_nodes(node_ids)}: {text(rule)}" for rule, node_ids in ids.items()]


def _nodes(node_ids: Collection[int]) -> str:
    if len(node_ids) == 1:
        return f"NUMA node {next(iter(node_ids))}"
    return f"NUMA nodes {NodeSet(node_ids)}"
