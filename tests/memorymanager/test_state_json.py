from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.state import Assignments, Block, NodeState, State, Table
from nri_numamem.memorymanager.state_json import (
    BLOCK_KEYS,
    NODE_KEYS,
    TABLE_KEYS,
    block_json,
    entries_json,
    node_json,
    state_json,
)
from nri_numamem.numa.idset import NodeSet

TABLE = Table(total=10, system_reserved=1, allocatable=9, reserved=4, free=5)
NODE = NodeState(1, {"memory": TABLE}, NodeSet([0, 2]))
BLOCK = Block(NodeSet([0, 2]), "memory", 4, charges=((0, 4),))
ASSIGNMENTS: Assignments = {"uid": {HolderKind.POD: (BLOCK,), "main": (BLOCK,), "empty": ()}}

TABLE_JSON = {"total": 10, "systemReserved": 1, "allocatable": 9, "reserved": 4, "free": 5}
NODE_JSON = {"numberOfAssignments": 1, "memoryMap": {"memory": TABLE_JSON}, "cells": [0, 2]}
BLOCK_JSON = {"numaAffinity": [0, 2], "type": "memory", "size": 4}


def test_block_has_the_kubelets_keys_and_no_charges() -> None:
    assert block_json(BLOCK) == BLOCK_JSON
    assert tuple(block_json(BLOCK)) == BLOCK_KEYS


def test_node_has_the_kubelets_keys() -> None:
    assert node_json(NODE) == NODE_JSON
    assert tuple(node_json(NODE)) == NODE_KEYS
    assert tuple(node_json(NODE)["memoryMap"]["memory"]) == TABLE_KEYS


def test_table_keys_are_in_the_order_of_the_fields() -> None:
    assert Table(*(TABLE_JSON[key] for key in TABLE_KEYS)) == TABLE


def test_entries_keep_containers_without_blocks_and_name_a_pod_as_a_whole_with_nothing() -> None:
    expected = {"uid": {"": [BLOCK_JSON], "main": [BLOCK_JSON], "empty": []}}
    assert entries_json(ASSIGNMENTS) == expected


def test_state_has_node_ids_as_text() -> None:
    state = State({2: NODE}, ASSIGNMENTS)
    expected = {"2": NODE_JSON}
    assert state_json(state)["machineState"] == expected
    assert state_json(state)["entries"] == entries_json(ASSIGNMENTS)
