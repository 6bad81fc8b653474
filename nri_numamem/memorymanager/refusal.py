"""Why a request was refused, in words for `kubectl describe pod`.

A ``Rejection`` carries the kubelet's own error text, the request, and per NUMA node what is free
and which rule passed the node over. Nodes of which the same is to be said share one part of the
text; when it is still too long (many nodes, each with its own figures), the nodes that one rule
passed over share a part. Hugepages that the kernel does not have, though the books call them free,
are named besides. All this is worked out when somebody reads it: under `best-effort` a place is
looked for several times, and refusals on the way are given up.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from nri_numamem.memorymanager.books import resource_order
from nri_numamem.memorymanager.choices import Choices, free_bytes
from nri_numamem.memorymanager.hint import Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY, humanize_bytes
from nri_numamem.memorymanager.state import NodeState, Request, State, Table
from nri_numamem.values import once, valueclass

# Kubernetes events cut a message at 1,024 bytes; runtime and caller add their own words.
MESSAGE_LIMIT = 900

UNEXPECTED = "UnexpectedAdmissionError"
TOPOLOGY = "TopologyAffinityError"
NOT_ALIGNED = "Resources cannot be allocated with Topology locality"


@valueclass(frozen=True, slots=True)
class NodeVerdict:
    """What one NUMA node had for a request, and why it was passed over."""

    node_id: int
    tables: Mapping[str, Table]
    """Requested resource -> its table on the node."""
    rule: str


@valueclass(frozen=True, slots=True)
class Explanation:
    """Why a request was refused."""

    message: str
    """At most 900 characters."""
    per_node: tuple[NodeVerdict, ...] = ()


class Rejection:
    """A request that was refused."""

    def __init__(self, reason: str, explain: Callable[[], Explanation]) -> None:
        """Begin with the kubelet's reason: UnexpectedAdmissionError or TopologyAffinityError."""
        self.reason = reason
        self._explain = explain

    @once
    def explanation(self) -> Explanation:
        """Why it was refused."""
        return self._explain()

    @property
    def message(self) -> str:
        """The explanation's text."""
        return self.explanation.message

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
    choices: Choices,
    preferences: Preferences,
    reason: str,
    sentence: str,
) -> Rejection:
    """Refuse `request`; `sentence`, the kubelet's text for it, comes last in the message."""
    return Rejection(reason, partial(_explain, state, request, choices, preferences, sentence))


def _explain(
    state: State, request: Request, choices: Choices, preferences: Preferences, sentence: str
) -> Explanation:
    prefixes = _prefixes(request)
    verdicts = tuple(
        NodeVerdict(
            node_id,
            {resource: node.table(resource) for resource in prefixes},
            _rule(state, node, request, prefixes),
        )
        for node_id, node in state.machine_state.items()
    )
    head = f"requested {_amounts(request)}; {_size(choices)}"
    fits = choices.best(preferences)
    if fits is not None:
        head += f"; by itself it would fit on {_nodes(tuple(fits))}"
    room = MESSAGE_LIMIT - len(f"; {sentence}")
    for summary in (_one_by_one, _by_rule):
        facts = "; ".join((head, *summary(verdicts, prefixes)))
        if len(facts) <= room:
            return Explanation(f"{facts}; {sentence}", verdicts)
    return Explanation(f"{facts[: room - 3]}...; {sentence}", verdicts)


def _prefixes(request: Request) -> dict[str, str]:
    """Return, in their order, what to name the resources by: nothing if it is memory alone."""
    order = sorted(request, key=resource_order)
    return {resource: "" if order == [MEMORY] else f"{resource} " for resource in order}


def _amounts(request: Request) -> str:
    return ", ".join(
        f"{resource} {humanize_bytes(request[resource], round_up=True)}"
        for resource in sorted(request, key=resource_order)
    )


def _size(choices: Choices) -> str:
    """Say how many nodes the request takes at least."""
    if choices.minimum is None:
        return "more than all NUMA nodes have together"
    if choices.minimum == 1:
        return "one empty NUMA node would do"
    return f"{choices.minimum} empty NUMA nodes would do"


def _rule(state: State, node: NodeState, request: Request, prefixes: Mapping[str, str]) -> str:
    if len(node.cells) > 1:
        free = [
            f"{prefix}{humanize_bytes(free_bytes(state, node.cells, resource))} free"
            for resource, prefix in prefixes.items()
        ]
        return f"in group {node.cells} with {', '.join(free)}"
    if node.number_of_assignments:
        return "serves single-node assignments"
    if any(node.table(resource).allocatable < amount for resource, amount in request.items()):
        return "unused, too small alone"
    return "unused"


def _one_by_one(verdicts: tuple[NodeVerdict, ...], prefixes: Mapping[str, str]) -> list[str]:
    ids: dict[str, list[int]] = {}
    for verdict in verdicts:
        parts = [
            f"{prefixes[resource]}{humanize_bytes(table.free)} free"
            f" of {humanize_bytes(table.allocatable)}{_taken_note(resource, table)}"
            for resource, table in verdict.tables.items()
        ]
        ids.setdefault(", ".join((*parts, verdict.rule)), []).append(verdict.node_id)
    return [f"{_nodes(node_ids)}: {text}" for text, node_ids in ids.items()]


def _taken_note(resource: str, table: Table) -> str:
    size_bytes = _taken_outside(resource, table)
    return f" ({humanize_bytes(size_bytes)} taken outside of pods)" if size_bytes else ""


def _taken_outside(resource: str, table: Table) -> int:
    """Return what was withheld, because the kernel does not have it (``pool_use``)."""
    return 0 if resource == MEMORY else max(0, table.allocatable - table.reserved - table.free)


def _by_rule(verdicts: tuple[NodeVerdict, ...], prefixes: Mapping[str, str]) -> list[str]:
    ids: dict[str, list[int]] = {}
    most: dict[tuple[str, str], int] = {}
    taken: dict[str, int] = {}
    for verdict in verdicts:
        rule = "in other groups" if verdict.rule.startswith("in group ") else verdict.rule
        ids.setdefault(rule, []).append(verdict.node_id)
        for resource, table in verdict.tables.items():
            taken[resource] = taken.get(resource, 0) + _taken_outside(resource, table)
            most[rule, resource] = max(most.get((rule, resource), 0), table.free)

    def text(rule: str) -> str:
        parts = [
            f"{prefix}at most {humanize_bytes(most[rule, resource])} free"
            for resource, prefix in prefixes.items()
        ]
        return ", ".join((*parts, rule))

    notes = [
        f"{humanize_bytes(size_bytes)} of {resource} taken outside of pods"
        for resource, size_bytes in taken.items()
        if size_bytes
    ]
    return notes + [f"{_nodes(node_ids)}: {text(rule)}" for rule, node_ids in ids.items()]


def _nodes(node_ids: Collection[int]) -> str:
    if len(node_ids) == 1:
        return f"NUMA node {next(iter(node_ids))}"
    return f"NUMA nodes {NodeSet(node_ids)}"
