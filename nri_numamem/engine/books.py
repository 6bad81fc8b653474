"""The books in the kubelet's words, as its state file spells them: for people and for tests."""

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.memorymanager import Block, NodeState, State, Table


def books_record(books: State) -> Record:
    """Return the whole books as one record."""
    return Record("books", fields={"entries": entries(books), "machineState": machine_state(books)})


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
