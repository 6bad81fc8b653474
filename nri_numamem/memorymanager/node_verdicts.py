"""What each NUMA node had for a rejected request, as the parts of a rejection's text.

Nodes with equal text share one part. ``one_by_one`` has a part for each kind of node, ``by_rule``
one for each rule.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.hugepage_pools import masked_bytes
from nri_numamem.memorymanager.new_blocks import resource_order
from nri_numamem.memorymanager.state import NodeState, Request, State, Table
from nri_numamem.numa.nodeset import NodeSet
from nri_numamem.numa.quantity import MEMORY, humanize_bytes


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What one NUMA node had for a request, and which rule excluded it."""

    node_id: int
    tables: Mapping[str, Table]
    """Requested resource -> its table on the node."""
    rule: str


def prefixes_of(request: Request) -> dict[str, str]:
    """Return resource -> its name in front of an amount; "" if only memory is requested."""
    order = sorted(request, key=resource_order)
    return {resource: "" if order == [MEMORY] else f"{resource} " for resource in order}


def rule_of(state: State, node: NodeState, request: Request, prefixes: Mapping[str, str]) -> str:
    """Return which rule excluded a node."""
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
    verdicts: tuple[NodeVerdict, ...],
    prefixes: Mapping[str, str],
    origin: Callable[[str, Table], str] = _no_origin,
) -> list[str]:
    """Return a part for all nodes with equal amounts and rules; `origin` explains an amount."""
    ids: dict[str, list[int]] = {}
    for verdict in verdicts:
        parts = [
            f"{prefixes[resource]}{humanize_bytes(table.free)} free"
            f" of {humanize_bytes(table.allocatable)} allocatable"
            f"{_notes(origin(resource, table), _non_pod_note(resource, table))}"
            for resource, table in verdict.tables.items()
        ]
        ids.setdefault(", ".join((*parts, verdict.rule)), []).append(verdict.node_id)
    return [f"{format_node_ids(node_ids)}: {text}" for text, node_ids in ids.items()]


def _non_pod_note(resource: str, table: Table) -> str:
    size_bytes = masked_bytes(resource, table)
    return f"{humanize_bytes(size_bytes)} used outside of pods" if size_bytes else ""


def _notes(*notes: str) -> str:
    text = "; ".join(note for note in notes if note)
    return f" ({text})" if text else ""


def by_rule(verdicts: tuple[NodeVerdict, ...], prefixes: Mapping[str, str]) -> list[str]:
    """Return a part for each rule, with the most that one of its nodes has free."""
    ids: dict[str, list[int]] = {}
    most: dict[tuple[str, str], int] = {}
    non_pod: dict[str, int] = {}
    for verdict in verdicts:
        rule = "in other groups" if verdict.rule.startswith("in group ") else verdict.rule
        ids.setdefault(rule, []).append(verdict.node_id)
        for resource, table in verdict.tables.items():
            non_pod[resource] = non_pod.get(resource, 0) + masked_bytes(resource, table)
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
    return notes + [f"{format_node_ids(node_ids)}: {text(rule)}" for rule, node_ids in ids.items()]


def format_node_ids(node_ids: Collection[int]) -> str:
    """Return "NUMA node 0" or "NUMA nodes 0-3"."""
    if len(node_ids) == 1:
        return f"NUMA node {next(iter(node_ids))}"
    return f"NUMA nodes {NodeSet(node_ids)}"
