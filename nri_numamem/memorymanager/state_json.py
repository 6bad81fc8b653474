"""The memory manager's state as JSON objects, with the kubelet's keys.

The kubelet's state file, the log record ``state_dump``, scenarios and the commands' output spell
tables, nodes and blocks with the same keys. This module is the only writer of these keys;
readers that check their input (``kubelet.state_file``, ``scenario.state``) take the lists of keys.
Source: kubelet memorymanager/state, JSON tags of MemoryTable, NUMANodeState and Block.
"""

from typing import TypedDict

from nri_numamem.memorymanager.holder import container_name
from nri_numamem.memorymanager.state import Assignments, Block, NodeState, State, Table

TABLE_KEYS = ("total", "systemReserved", "allocatable", "reserved", "free")
"""In the order of the fields of ``Table``."""
NODE_KEYS = ("numberOfAssignments", "memoryMap", "cells")
BLOCK_KEYS = ("numaAffinity", "type", "size")


class TableJson(TypedDict):
    """The five amounts of a resource on a node, in bytes."""

    total: int
    systemReserved: int
    allocatable: int
    reserved: int
    free: int


class NodeJson(TypedDict):
    """A NUMA node: its number of blocks, resource name -> table, and its group's node ids."""

    numberOfAssignments: int
    memoryMap: dict[str, TableJson]
    cells: list[int]


class BlockJson(TypedDict):
    """A block of an assignment: node ids, resource name, bytes."""

    numaAffinity: list[int]
    type: str
    size: int


EntriesJson = dict[str, dict[str, list[BlockJson]]]
"""Pod uid -> container name -> blocks."""


class StateJson(TypedDict):
    """Node id as text -> node, and the assignments."""

    machineState: dict[str, NodeJson]
    entries: EntriesJson


def state_json(state: State) -> StateJson:
    """Return the nodes and the assignments of a state."""
    machine_state = {str(node_id): node_json(node) for node_id, node in state.machine_state.items()}
    return {"machineState": machine_state, "entries": entries_json(state.assignments)}


def entries_json(assignments: Assignments) -> EntriesJson:
    """Return the blocks of every container."""
    return {
        uid: {
            container_name(name): [block_json(block) for block in blocks]
            for name, blocks in containers.items()
        }
        for uid, containers in assignments.items()
    }


def node_json(node: NodeState) -> NodeJson:
    """Return one NUMA node."""
    return {
        "numberOfAssignments": node.number_of_assignments,
        "memoryMap": {name: _table_json(table) for name, table in node.memory_map.items()},
        "cells": list(node.cells),
    }


def block_json(block: Block) -> BlockJson:
    """Return one block; the file does not record which node each byte is charged to."""
    return {"numaAffinity": list(block.numa_affinity), "type": block.type, "size": block.size}


def _table_json(table: Table) -> TableJson:
    return {
        "total": table.total,
        "systemReserved": table.system_reserved,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }
