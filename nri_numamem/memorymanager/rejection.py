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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from nri_numamem.memorymanager.candidates import Candidates, free_bytes
from nri_numamem.memorymanager.new_blocks import resource_order
from nri_numamem.memorymanager.node_verdicts import (
    NodeVerdict,
    by_rule,
    format_node_ids,
    one_by_one,
    origin_of,
    prefixes_of,
    rule_of,
)
from nri_numamem.memorymanager.state import NodeState, Request, State
from nri_numamem.numa.nodeset import NodeSet
from nri_numamem.numa.preferences import Preferences
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX, humanize_bytes

# Kubernetes events cut a message at 1,024 bytes; runtime and caller add their own words.
MESSAGE_LIMIT = 900

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY = "TopologyAffinityError"
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"

_USE_LESS = "remedy: request less, or use a larger host"


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
    prefixes = prefixes_of(request)
    rule = partial(rule_of, state, request=request, prefixes=prefixes)
    verdicts = verdicts_of(state, prefixes, rule)
    head = f"requested {format_amounts(request)}; {_size(candidates)}"
    fitting = candidates.best(preferences)
    if fitting is not None:
        head += f"; without topology constraints it would fit on {format_node_ids(tuple(fitting))}"
    remedy = _remedy(verdicts, request, candidates, fitting)
    return composed(head, verdicts, prefixes, f"{remedy}; {sentence}", limit)


def _explain_pod(
    state: State,
    request: Request,
    outstanding: Request,
    sentence: str,
    limit: int = MESSAGE_LIMIT,
) -> Explanation:
    prefixes = prefixes_of(request)
    verdicts = verdicts_of(state, prefixes, lambda _: "not enough together with the other nodes")
    free = {name: free_bytes(state, state.machine_state, name) for name in prefixes}
    available = ", ".join(f"{name} {humanize_bytes(size)}" for name, size in free.items())
    head = f"requested {format_amounts(request)} for the pod"
    if outstanding:
        head += f"; pods of which some containers run still need {format_amounts(outstanding)}"
    head += f"; all NUMA nodes together have {available} free"
    exceeds = any(
        sum(verdict.tables[name].allocatable for verdict in verdicts) < size
        for name, size in request.items()
    )
    remedy = _remedy_of_missing(verdicts, request) or (
        _USE_LESS if exceeds else "remedy: make room for all containers of the pod, or request less"
    )
    why = "refused so that the pod does not start in part"
    return composed(head, verdicts, prefixes, f"{why}; {remedy}; {sentence}", limit)


def verdicts_of(
    state: State, resources: Iterable[str], rule: Callable[[NodeState], str]
) -> tuple[NodeVerdict, ...]:
    """Return what each node has of these resources; `rule` says why it was excluded."""
    return tuple(
        NodeVerdict(node_id, {name: node.table(name) for name in resources}, rule(node))
        for node_id, node in state.machine_state.items()
    )


def composed(
    head: str,
    verdicts: tuple[NodeVerdict, ...],
    prefixes: Mapping[str, str],
    end: str,
    limit: int,
) -> Explanation:
    """Return the explanation, with as many facts about the nodes as there is room for."""
    room = limit - len(f"; {end}")
    for summary in (partial(one_by_one, origin=origin_of), one_by_one, by_rule):
        facts = "; ".join((head, *summary(verdicts, prefixes)))
        if len(facts) <= room:
            return Explanation(f"{facts}; {end}", verdicts)
    return Explanation(f"{facts[: max(0, room - 3)]}...; {end}"[-limit:], verdicts)


def format_amounts(request: Request) -> str:
    """Return a text such as "memory 1Gi, hugepages-2Mi 4Mi"."""
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
    one_of = "one of " if len(large) > 1 else ""
    return f"remedy: make room on {one_of}{format_node_ids(large)}"


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
