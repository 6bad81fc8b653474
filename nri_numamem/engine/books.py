"""The books as records, for people and for tests.

By themselves they are in the kubelet's words, as its state file spells them; what the kernel says
of its hugepage pools stands beside them.
"""

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.memorymanager import (
    Block,
    NodeState,
    Outside,
    PoolUse,
    State,
    Table,
    outside,
)


def books_record(books: State) -> Record:
    """Return the whole books as one record."""
    return Record("books", fields={"entries": entries(books), "machineState": machine_state(books)})


def pools_record(books: State, use: PoolUse) -> Record:
    """Return the kernel's hugepage pools beside what the books hold of them."""
    in_use: dict[str, RecordValue] = {}
    free: dict[str, RecordValue] = {}
    held: dict[str, RecordValue] = {}
    for node_id, pools in use.pools.items():
        node = books.machine_state.get(node_id)
        in_use[str(node_id)] = {resource: pool.used for resource, pool in pools.items()}
        free[str(node_id)] = {resource: pool.free for resource, pool in pools.items()}
        held[str(node_id)] = {name: node.table(name).reserved if node else 0 for name in pools}
    fields: dict[str, RecordValue] = {
        "in_use": in_use,
        "free": free,
        "promised": dict(use.promised),
        "held_by_pods": held,
        "used_by_pods": _by_nodes(use),
    }
    return Record("hugepage pools", fields={**fields, **_outside(outside(books, use))})


def outside_record(found: Outside) -> Record:
    """Record that books and kernel differ, or do so no more."""
    if found == Outside():
        return Record("hugepages no longer taken outside of pods")
    return Record("hugepages taken outside of pods", fields=_outside(found))


def _by_nodes(use: PoolUse) -> RecordValue:
    """Add up what pods use, as far as it is known."""
    sums: dict[int, dict[str, int]] = {}
    for nodes in use.by_pods.values():
        for node_id, sizes in nodes.items():
            on_node = sums.setdefault(node_id, {})
            for resource, size_bytes in sizes.items():
                on_node[resource] = on_node.get(resource, 0) + size_bytes
    return {str(node_id): dict(sizes) for node_id, sizes in sorted(sums.items())}


def _outside(found: Outside) -> dict[str, RecordValue]:
    fields: dict[str, RecordValue] = {
        "taken_outside": {str(nodes): dict(sizes) for nodes, sizes in found.taken.items()}
    }
    if found.promised:
        fields["promised_outside"] = dict(found.promised)
    return fields


def entries(books: State) -> dict[str, RecordValue]:
    """Return {pod uid: {container: [block]}}."""
    return {
        uid: {name: [_block(block) for block in blocks] for name, blocks in containers.items()}
        for uid, containers in books.assignments.items()
    }


def machine_state(books: State) -> dict[str, RecordValue]:
    """Return {node id: {numberOfAssignments, memoryMap, cells}}."""
    return {str(node_id): _node(node) for node_id, node in books.machine_state.items()}


def _block(block: Block) -> RecordValue:
    return {"numaAffinity": list(block.numa_affinity), "type": block.type, "size": block.size}


def _node(node: NodeState) -> RecordValue:
    return {
        "numberOfAssignments": node.number_of_assignments,
        "memoryMap": {name: _table(table) for name, table in node.memory_map.items()},
        "cells": list(node.cells),
    }


def _table(table: Table) -> RecordValue:
    return {
        "total": table.total,
        "systemReserved": table.system_reserved,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }
