"""The kubelet's state file, memory_manager_state: read it, verify it, write one.

The file has had four formats: that of the alpha in 1.21, V1 (up to 1.35), V2 (1.36, with
assignments of whole pods) and V3 (1.37, whose content is a JSON text within the JSON). A checksum
covers the content as Go prints it, so the formats differ by the names of Go's types too. A file
whose checksum is wrong is still read, for people to look at; ``verify`` judges it.

Source: kubelet memorymanager/state, checkpoint.go and state_checkpoint.go of these versions.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NoReturn

from nri_numamem.memorymanager import checkpoint_layout as layout
from nri_numamem.memorymanager.checkpoint_values import (
    CheckpointError,
    Struct,
    Value,
    hashed_text,
    json_text,
    read,
    shown,
)
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.state import Assignments, Block, NodeState, State, Table
from nri_numamem.values import valueclass

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointFormat",
    "format_checkpoint_v1",
    "parse_checkpoint",
    "verify",
]

# A file has at least one of these keys; Go would take any JSON object for an empty state.
_CONTENT = ("policyName", "machineState", "data", "dataChecksum")


class CheckpointFormat(StrEnum):
    """The formats of the file, by the versions of the kubelet that write them."""

    ALPHA = "alpha (1.21)"
    V1 = "V1 (up to 1.35)"
    V2 = "V2 (1.36)"
    V3 = "V3 (1.37)"


@valueclass(frozen=True, slots=True)
class Checkpoint:
    """What a state file holds."""

    format: CheckpointFormat
    policy_name: str
    machine_state: Mapping[int, NodeState]
    entries: Assignments
    pod_entries: Mapping[str, tuple[Block, ...]]
    """Pod uid -> what the pod holds as a whole; its containers' blocks are shares of it."""
    checksum: int
    """As written in the file."""
    expected_checksum: int
    """As the content demands."""

    @property
    def is_verified(self) -> bool:
        """Tell whether the checksum is right; V1 takes 0 for "not computed", as the kubelet."""
        is_unchecked = self.checksum == 0 and self.format is CheckpointFormat.V1
        return is_unchecked or self.checksum == self.expected_checksum


def parse_checkpoint(content: str | bytes) -> Checkpoint:
    """Return what a state file holds, whether or not its checksum is right.

    Raises CheckpointError when it is no state file, or cut off.
    """
    document = _load(content, "")
    if document.keys().isdisjoint(_CONTENT):
        raise CheckpointError(f"none of {', '.join(_CONTENT)} is there; this is no state file")
    if "data" in document or "dataChecksum" in document:
        return _parse_v3(document)
    found: list[Checkpoint] = []
    for kind, struct, type_names in _candidates(document):
        value = read(struct, document, "")
        stored = value["checksum"]
        # The checksum itself counts as 0.
        text = hashed_text(struct, {**value, "checksum": 0})
        expected = [layout.fnv1a(f"(*state.{name}){text}") for name in type_names]
        checksum = stored if stored in expected else expected[0]
        found.append(_checkpoint(kind, struct, value, stored, checksum))
    return next((c for c in found if c.checksum == c.expected_checksum), found[0])


def _candidates(
    document: Mapping[str, object],
) -> Iterator[tuple[CheckpointFormat, Struct, tuple[str, ...]]]:
    """Yield the formats that a file may have; some differ by their checksum only."""
    if "podEntries" in document:
        yield CheckpointFormat.V2, layout.V2, (layout.TYPE_NAME,)
        return
    nodes = document.get("machineState")
    found = list(nodes.values()) if isinstance(nodes, dict) else []
    has_old_name = any(isinstance(node, dict) and "nodes" in node for node in found)
    if not has_old_name:
        # 1.36 hashes its type MemoryManagerCheckpointV1 under that name, and reads the other.
        yield CheckpointFormat.V1, layout.V1, (layout.TYPE_NAME, f"{layout.TYPE_NAME}V1")
        yield CheckpointFormat.V2, layout.V2, (layout.TYPE_NAME,)
    if has_old_name or not found:
        yield CheckpointFormat.ALPHA, layout.ALPHA, (layout.TYPE_NAME,)


def _parse_v3(document: Mapping[str, object]) -> Checkpoint:
    """Read the format whose content is a text; the fields beside it are for older kubelets."""
    outer = read(layout.V3, document, "")
    value = read(layout.DATA, _load(outer["data"], "data: "), "data")
    stored, expected = outer["dataChecksum"], layout.fnv1a(f"(string){outer['data']}")
    return _checkpoint(CheckpointFormat.V3, layout.DATA, value, stored, expected)


def verify(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError unless the checksum is right."""
    if not checkpoint.is_verified:
        raise CheckpointError(
            f"the checkpoint is corrupted: its checksum is {checkpoint.checksum}, its content "
            f"gives {checkpoint.expected_checksum}; it was edited or damaged after it was written"
        )


def _load(content: str | bytes, origin: str) -> Mapping[str, object]:
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        document = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        problem = f"{origin}byte {error.start} is not UTF-8; this is no state file"
        raise CheckpointError(problem) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        problem = f"{origin}no JSON from {where} on ({error.msg}); is the file cut off?"
        raise CheckpointError(problem) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{origin}not JSON that the kubelet writes ({error})") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{origin}no JSON object; this is no state file")
    return document


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _checkpoint(
    kind: CheckpointFormat, struct: Struct, value: Value, stored: int, expected: int
) -> Checkpoint:
    group = "nodes" if struct is layout.ALPHA else "cells"
    machine_state = {
        _node_id(node_id): _node_state(f"machineState.{node_id}", node, group)
        for node_id, node in sorted((value["machineState"] or {}).items())
    }
    entries = {
        uid: {
            name: _blocks(f"entries.{shown(uid)}.{shown(name)}", blocks)
            for name, blocks in (containers or {}).items()
        }
        for uid, containers in (value["entries"] or {}).items()
    }
    pod_entries = {
        uid: _blocks(f"podEntries.{shown(uid)}", entry["memoryBlocks"])
        for uid, entry in (value.get("podEntries") or {}).items()
    }
    policy_name = value["policyName"]
    return Checkpoint(kind, policy_name, machine_state, entries, pod_entries, stored, expected)


def _node_id(node_id: int) -> int:
    _node_set("machineState", [node_id])
    return node_id


def _node_state(place: str, node: Any, group: str) -> NodeState:  # noqa: ANN401 - a Go value
    if node is None:
        raise CheckpointError(f"{place}: null where a NUMA node belongs")
    tables = node["memoryMap"] or {}
    for resource, table in tables.items():
        if table is None:
            raise CheckpointError(
                f"{place}.memoryMap.{shown(resource)}: null where a table belongs"
            )
    return NodeState(
        node["numberOfAssignments"],
        {resource: Table(*table.values()) for resource, table in tables.items()},
        _node_set(f"{place}.{group}", node[group]),
    )


def _blocks(place: str, blocks: list[Value] | None) -> tuple[Block, ...]:
    return tuple(
        Block(_node_set(f"{place}[{index}]", block["numaAffinity"]), block["type"], block["size"])
        for index, block in enumerate(blocks or ())
    )


def _node_set(place: str, ids: list[int] | None) -> NodeSet:
    try:
        return NodeSet(ids or ())
    except ValueError as error:
        raise CheckpointError(f"{place}: {error}") from error


def format_checkpoint_v1(books: State, policy_name: str) -> str:
    """Return books as a state file of format V1, byte for byte as the kubelet writes it.

    `policy_name` is the kubelet's word, "Static" or "None".
    """
    value: dict[str, Value] = {
        "policyName": policy_name,
        "machineState": {node_id: _node(node) for node_id, node in books.machine_state.items()},
        "entries": {
            uid: {name: [_block(block) for block in blocks] for name, blocks in containers.items()}
            for uid, containers in books.assignments.items()
        },
        "checksum": 0,
    }
    checksum = layout.fnv1a(f"(*state.{layout.TYPE_NAME}){hashed_text(layout.V1, value)}")
    return json_text(layout.V1, {**value, "checksum": checksum})


def _node(node: NodeState) -> Value:
    return {
        "numberOfAssignments": node.number_of_assignments,
        "memoryMap": {resource: _table(table) for resource, table in node.memory_map.items()},
        "cells": list(node.cells),
    }


def _table(table: Table) -> Value:
    return {
        "total": table.total,
        "systemReserved": table.system_reserved,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }


def _block(block: Block) -> Value:
    return {"numaAffinity": list(block.numa_affinity), "type": block.type, "size": block.size}
