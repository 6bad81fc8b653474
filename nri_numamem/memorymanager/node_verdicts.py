"""What each NUMA node had for a rejected request, as the parts of a rejection's text.

Nodes with equal text share one part. ``node_facts`` returns as many facts as there is room for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nri_numamem.memorymanager.hugepage_pools import masked_bytes
from nri_numamem.memorymanager.node_reasons import SUMMARIES, Reason, Rule, prefixes_of
from nri_numamem.memorymanager.state import NodeState, Request, Table
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY, humanize_bytes, sum_amounts

_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What one NUMA node had for a request, and why it was passed over."""

    node_id: int
    tables: Mapping[str, Table]
    """Requested resource -> its table on the node, memory first."""
    reason: Reason


def verdict_of(node_id: int, node: NodeState, request: Request, reason: Reason) -> NodeVerdict:
    """Return the verdict on a node for a request."""
    return NodeVerdict(node_id, {name: node.table(name) for name in prefixes_of(request)}, reason)


def node_facts(verdicts: Sequence[NodeVerdict], room: int) -> str:
    """Return what is known about the nodes in at most `room` characters, without loss if possible.

    The first form that fits is taken: each node with the origin of its amounts, each node, a
    compact form with and without the rules. On a larger machine one resource has a part for each
    rule. The compact form of several resources is cut: an amount of one node beside that of another
    would read as one node that has both.
    """
    if not verdicts:
        return ""
    is_several = len(verdicts[0].tables) > 1
    forms: list[Callable[[Sequence[NodeVerdict]], list[str]]] = [
        partial(one_by_one, origin=origin_of),
        one_by_one,
        lambda found: [*compact(found), *_by_rule(found)],
    ]
    forms += [compact] if is_several else [by_rule]
    for form in forms:
        text = "; ".join(form(verdicts))
        if len(text) <= room:
            return text
    largest = sorted(verdicts, key=_free, reverse=True)
    for count in range(len(verdicts) - 1, 0, -1) if is_several else ():
        omitted = f"{len(verdicts) - count} other nodes"
        text = "; ".join(compact(sorted(largest[:count], key=_id))) + f" · {omitted}"
        if len(text) <= room:
            return text
    return text


def _id(verdict: NodeVerdict) -> int:
    return verdict.node_id


def _free(verdict: NodeVerdict) -> list[int]:
    return [table.free for table in verdict.tables.values()]


def origin_of(resource: str, table: Table) -> str:
    """Return how the allocatable amount results: "8Gi less 1Gi reservedMemory, ..."; or ""."""
    parts = {"reservedMemory": table.system_reserved}
    if resource == MEMORY:
        parts["hugepages"] = table.total - table.system_reserved - table.allocatable
    less = [f"{humanize_bytes(size)} {name}" for name, size in parts.items() if size > 0]
    return f"{humanize_bytes(table.total)} less {', '.join(less)}" if less else ""


def _no_origin(_resource: str, _table: Table) -> str:
    return ""


def one_by_one(
    verdicts: Sequence[NodeVerdict], origin: Callable[[str, Table], str] = _no_origin
) -> list[str]:
    """Return a part for all nodes with equal amounts and reasons; `origin` explains an amount."""

    def text(verdict: NodeVerdict) -> str:
        prefixes = prefixes_of(verdict.tables)
        parts = [
            f"{prefixes[resource]}{humanize_bytes(table.free)} free"
            f" of {humanize_bytes(table.allocatable)} allocatable"
            f"{_notes(origin(resource, table), _non_pod_note(resource, table))}"
            for resource, table in verdict.tables.items()
        ]
        return ", ".join((*parts, verdict.reason.text))

    return [f"{format_node_ids(ids)}: {found}" for found, ids in _shared(verdicts, text)]


def compact(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """Return the free amounts of each node in one part: "0: 9.97Gi, 4Gi · 1-2: 33.97Gi, 0"."""
    names = [*verdicts[0].tables]
    of = f" {', '.join(names)}" if len(names) > 1 else ""

    def text(verdict: NodeVerdict) -> str:
        return ", ".join(humanize_bytes(table.free) for table in verdict.tables.values())

    parts = [f"{NodeSet(ids)}: {found}" for found, ids in _shared(verdicts, text)]
    return [*_non_pod_notes(verdicts), f"free{of} per NUMA node: {' · '.join(parts)}"]


def by_rule(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """Return a part for each rule, with the most that one of its nodes has of the one resource."""
    (resource,) = verdicts[0].tables
    most: dict[Rule, int] = {}
    for verdict in verdicts:
        rule = verdict.reason.rule
        most[rule] = max(most.get(rule, 0), verdict.tables[resource].free)
    prefix = prefixes_of([resource])[resource]
    texts = {rule: f"{prefix}at most {humanize_bytes(size)} free, " for rule, size in most.items()}
    return [*_non_pod_notes(verdicts), *_by_rule(verdicts, texts)]


def _by_rule(verdicts: Sequence[NodeVerdict], texts: Mapping[Rule, str] | None = None) -> list[str]:
    """Return a part for all nodes with the same rule; `texts` precede the rules."""
    return [
        f"{format_node_ids(ids)}: {(texts or {}).get(rule, '')}{SUMMARIES[rule]}"
        for rule, ids in _shared(verdicts, lambda verdict: verdict.reason.rule)
    ]


def _shared(
    verdicts: Sequence[NodeVerdict], key: Callable[[NodeVerdict], _K]
) -> list[tuple[_K, list[int]]]:
    """Return each key with the ids of its nodes, in the order of the first ids."""
    ids: dict[_K, list[int]] = {}
    for verdict in verdicts:
        ids.setdefault(key(verdict), []).append(verdict.node_id)
    return [*ids.items()]


def _non_pod_notes(verdicts: Sequence[NodeVerdict]) -> list[str]:
    sums = sum_amounts(
        (resource, masked_bytes(resource, table))
        for verdict in verdicts
        for resource, table in verdict.tables.items()
    )
    return [
        f"{humanize_bytes(size)} of {resource} used outside of pods"
        for resource, size in sums.items()
        if size
    ]


def _non_pod_note(resource: str, table: Table) -> str:
    size_bytes = masked_bytes(resource, table)
    return f"{humanize_bytes(size_bytes)} used outside of pods" if size_bytes else ""


def _notes(*notes: str) -> str:
    text = "; ".join(note for note in notes if note)
    return f" ({text})" if text else ""


def format_node_ids(node_ids: Collection[int]) -> str:
    """Return "NUMA node 0" or "NUMA nodes 0-3"."""
    if len(node_ids) == 1:
        return f"NUMA node {next(iter(node_ids))}"
    return f"NUMA nodes {NodeSet(node_ids)}"
