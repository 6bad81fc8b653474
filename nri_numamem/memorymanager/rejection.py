"""Why a request was rejected, as text for `kubectl describe pod`.

A ``Rejection`` has the kubelet's own error text, the request, and per NUMA node what is free, how
the allocatable amount results, and why the node was passed over (``node_verdicts``). Hugepages that
the kernel cannot provide, although the accounting has them free, are named too. Remedies follow the
facts, if the engine adds any; the kubelet's sentence is the end. Other pods are never named,
because events have other readers.

The text is computed when it is first read: under `best-effort`, several placements are tried, and
the rejections of all but the last are discarded.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

from nri_numamem.memorymanager.blocks import resource_order
from nri_numamem.memorymanager.candidates import Candidates, free_bytes
from nri_numamem.memorymanager.node_reasons import (
    HAS_ROOM,
    Reason,
    Rule,
    prefixes_of,
    reason_for,
    reason_of,
)
from nri_numamem.memorymanager.node_verdicts import (
    NodeVerdict,
    format_node_ids,
    node_facts,
    verdict_of,
)
from nri_numamem.memorymanager.remedy import Remedy, joined
from nri_numamem.memorymanager.state import Request, State
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences
from nri_numamem.numa.quantity import humanize_bytes

# Kubernetes events cut a message at 1,024 bytes; runtime and caller add their own words.
MESSAGE_LIMIT = 900

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY = "TopologyAffinityError"
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason for a rejection, for people and for records."""

    facts: str
    """The request, and what holds for all nodes."""
    sentence: str = ""
    """The kubelet's error text; "" if it has none."""
    per_node: tuple[NodeVerdict, ...] = ()


class Rejection:
    """A rejected request; two rejections are equal if their explanations are."""

    def __init__(
        self,
        reason: str,
        explain: Callable[[], Explanation],
        *,
        is_of_pod: bool = False,
        common: Reason | None = None,
        find_remedies: Callable[[], tuple[Remedy, ...]] = tuple,
    ) -> None:
        """Take the kubelet's reason, e.g. UnexpectedAdmissionError, and compute the text later.

        `common` is the reason of all node sets that could hold the container, if there is one.
        """
        self.reason = reason
        self.is_of_pod = is_of_pod
        """Whether the request is that of the pod as a whole, in pod scope."""
        self.common = common
        self._explain = explain
        self._find_remedies = find_remedies

    @cached_property
    def explanation(self) -> Explanation:
        """The explanation, computed once."""
        return self._explain()

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What makes the request fit, the best first; each was tried. Found once."""
        return self._find_remedies()

    @cached_property
    def message(self) -> str:
        """The text, with at most MESSAGE_LIMIT characters."""
        return self._composed(MESSAGE_LIMIT)

    @property
    def summary(self) -> str:
        """The text without remedies and without what is known about each node."""
        found = self.explanation
        return "; ".join(part for part in (found.facts, found.sentence) if part)

    def message_within(self, limit: int) -> str:
        """Return the text with at most `limit` characters, with fewer facts if necessary."""
        return self.message if len(self.message) <= limit else self._composed(limit)

    def _composed(self, limit: int) -> str:
        found, remedy = self.explanation, joined(self.remedies)
        parts = (f"remedy: {remedy}" if remedy else "", found.sentence)
        end = "".join(f"; {part}" for part in parts if part)
        nodes = node_facts(found.per_node, limit - len(found.facts) - len("; ") - len(end))
        facts = f"{found.facts}; {nodes}" if nodes else found.facts
        if len(facts) + len(end) <= limit:
            return f"{facts}{end}"
        return f"{facts[: max(0, limit - len(end) - 3)]}...{end}"[-limit:]

    def of_pod(self) -> "Rejection":
        """Return the rejection of a request that is the pod's as a whole."""
        return Rejection(self.reason, self._explain, is_of_pod=True, common=self.common)

    def with_fact(self, fact: str) -> "Rejection":
        """Return the rejection with one more fact that holds for all nodes."""

        def explain() -> Explanation:
            return replace(self.explanation, facts=f"{self.explanation.facts}; {fact}")

        return Rejection(
            self.reason,
            explain,
            is_of_pod=self.is_of_pod,
            common=self.common,
            find_remedies=self._find_remedies,
        )

    def explained(
        self,
        reason_of_node: Callable[[int], Reason],
        find_remedies: Callable[[], tuple[Remedy, ...]] = tuple,
    ) -> "Rejection":
        """Return the rejection with the reasons of NUMA nodes by all rules, and with remedies."""

        def explain() -> Explanation:
            found = self.explanation
            verdicts = tuple(
                replace(each, reason=reason_of_node(each.node_id)) for each in found.per_node
            )
            return replace(found, per_node=verdicts)

        return Rejection(
            self.reason,
            explain,
            is_of_pod=self.is_of_pod,
            common=self.common,
            find_remedies=find_remedies,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rejection):
            return NotImplemented
        return (self.reason, self.explanation) == (other.reason, other.explanation)

    def __hash__(self) -> int:
        return hash((self.reason, self.message))

    def __repr__(self) -> str:
        return f"Rejection({self.reason!r}, {self.explanation!r})"


def allocation_failed(problem: str) -> str:
    """Return the kubelet's sentence around an error of one of its managers."""
    return f"Allocate failed due to [memorymanager] {problem}, which is unexpected"


def reject(
    state: State,
    uid: str,
    request: Request,
    candidates: Candidates,
    preferences: Preferences,
    reason: str,
    sentence: str,
    limitation: str = "",
) -> Rejection:
    """Reject a request of pod `uid`; `sentence`, the kubelet's error text, ends the message.

    `limitation` is the most that the policy allows: "single-numa-node allows 1".
    """
    explain = partial(_explain, state, uid, request, candidates, preferences, sentence, limitation)
    return Rejection(reason, explain)


def reject_pod(
    state: State, request: Request, outstanding: Request, reason: str, sentence: str
) -> Rejection:
    """Reject the first container of a pod because all nodes together cannot hold the pod.

    `request` is the pod's; `outstanding` is what pods that have started in part still need.
    """
    explain = partial(_explain_pod, state, request, outstanding, sentence)
    return Rejection(reason, explain, common=reason_for(Rule.NOT_ENOUGH_TOGETHER))


def not_aligned(fact: str) -> Rejection:
    """Reject a container whose CPUs and devices are away from where its memory must be."""
    explain = partial(Explanation, fact, NOT_ALIGNED)
    return Rejection(TOPOLOGY, explain, common=reason_for(Rule.OUTSIDE_POD_NODES))


def _explain(
    state: State,
    uid: str,
    request: Request,
    candidates: Candidates,
    preferences: Preferences,
    sentence: str,
    limitation: str,
) -> Explanation:
    verdicts = verdicts_of(
        state,
        request,
        lambda n: reason_of(state, uid, request, candidates, NodeSet([n])) or HAS_ROOM,
    )
    facts = f"requested {format_amounts(request)}; {_size(candidates, limitation)}"
    fitting = candidates.best(preferences)
    if fitting is not None:
        facts += f"; without topology constraints it would fit on {format_node_ids(tuple(fitting))}"
    return Explanation(facts, sentence, verdicts)


def _explain_pod(
    state: State, request: Request, outstanding: Request, sentence: str
) -> Explanation:
    together = reason_for(Rule.NOT_ENOUGH_TOGETHER)
    verdicts = verdicts_of(state, request, lambda _: together)
    free = {name: free_bytes(state, state.machine_state, name) for name in prefixes_of(request)}
    available = ", ".join(f"{name} {humanize_bytes(size)}" for name, size in free.items())
    facts = f"requested {format_amounts(request)} for the pod"
    if outstanding:
        facts += f"; pods that have started in part still need {format_amounts(outstanding)}"
    facts += f"; all NUMA nodes together have {available} free"
    facts += "; refused so that the pod does not start in part"
    return Explanation(facts, sentence, verdicts)


def verdicts_of(
    state: State, request: Request, reason_of_node: Callable[[int], Reason]
) -> tuple[NodeVerdict, ...]:
    """Return what each node has of the requested resources, and why it was passed over."""
    return tuple(
        verdict_of(node_id, node, request, reason_of_node(node_id))
        for node_id, node in state.machine_state.items()
    )


def format_amounts(request: Request) -> str:
    """Return a text such as "memory 1Gi, hugepages-2Mi 4Mi"."""
    return ", ".join(
        f"{resource} {humanize_bytes(request[resource], round_up=True)}"
        for resource in sorted(request, key=resource_order)
    )


def _size(candidates: Candidates, limitation: str) -> str:
    """Return how many nodes the request needs at least, and the limit of the policy."""
    if candidates.minimum is None:
        return "exceeds all NUMA nodes together"
    if candidates.minimum == 1:
        return "fits on 1 empty NUMA node"
    needed = f"needs {candidates.minimum} NUMA nodes"
    return f"{needed}, {limitation}" if limitation else needed
