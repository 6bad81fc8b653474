"""Read, verify and write the kubelet's state file, memory_manager_state.

The file has four formats: the alpha format of 1.21, V1 (up to 1.35), V2 (1.36, with assignments of
whole pods) and V3 (1.37, whose content is JSON text in a JSON string). The checksum covers the
content as Go prints it, so the names of Go types distinguish formats too. ``parse_checkpoint``
reads a file with a wrong checksum as well, so it can be shown; ``verify`` raises the error.

Source: kubelet memorymanager/state, checkpoint.go and state_checkpoint.go of these versions.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from nri_numamem.kubelet import state_layout as layout
from nri_numamem.kubelet.go_values import (
    CheckpointError,
    Struct,
    Value,
    hashed_text,
    json_text,
    read,
    shown,
)
from nri_numamem.memorymanager.state import Assignments, Block, NodeState, State, Table
from nri_numamem.memorymanager.state_json import TABLE_KEYS, entries_json, node_json
from nri_numamem.numa.idset import NodeSet

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointFormat",
    "format_checkpoint_v1",
    "parse_checkpoint",
    "verify",
]

# Keys of cpu_manager_state, which has policyName, entries and checksum as well.
_CPU_MANAGER_KEYS = ("defaultCpuSet", "defaultCPUSet")
# A file has at least one of these keys; Go would read any JSON object as an empty state.
_CONTENT = ("policyName", "machineState", "data", "dataChecksum")


class CheckpointFormat(StrEnum):
    """The formats of the file, with the versions of the kubelet that write them."""

    ALPHA = "alpha (1.21)"
    V1 = "V1 (up to 1.35)"
    V2 = "V2 (1.36)"
    V3 = "V3 (1.37)"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a state file."""

    format: CheckpointFormat
    policy_name: str
    machine_state: Mapping[int, NodeState]
    entries: Assignments
    pod_entries: Mapping[str, tuple[Block, ...]]
    """Pod uid -> blocks of the whole pod, of which its containers' blocks are parts."""
    checksum: int
    """The checksum in the file."""
    expected_checksum: int
    """The checksum of the content."""

    @property
    def is_verified(self) -> bool:
        """Return whether the checksum is right."""
        return self.checksum == self.expected_checksum

    @property
    def has_no_checksum(self) -> bool:
        """Return whether the checksum is 0 or missing, which the kubelet accepts in V1."""
        return self.checksum == 0 and self.format is CheckpointFormat.V1


def parse_checkpoint(content: str | bytes) -> Checkpoint:
    """Return the content of a state file, whether or not its checksum is right.

    Raises CheckpointError for content that is not a state file, or is truncated.
    """
    document = _load(content, "")
    if not document.keys().isdisjoint(_CPU_MANAGER_KEYS):
        raise CheckpointError(
            "this is the state of the kubelet's CPU manager; give the file memory_manager_state"
        )
    if document.keys().isdisjoint(_CONTENT):
        raise CheckpointError(f"none of {', '.join(_CONTENT)} is there; this is not a state file")
    if "data" in document or "dataChecksum" in document:
        return _parse_v3(document)
    found: list[Checkpoint] = []
    for kind, struct, type_names in _candidates(document):
        value = read(struct, document, "")
        stored = value["checksum"]
        # The checksum's own field is 0 while it is computed.
        text = hashed_text(struct, {**value, "checksum": 0})
        expected = [layout.fnv1a(f"(*state.{name}){text}") for name in type_names]
        checksum = stored if stored in expected else expected[0]
        found.append(_checkpoint(kind, struct, value, stored, checksum))
    return next((c for c in found if c.checksum == c.expected_checksum), found[0])


def _candidates(
    document: Mapping[str, object],
) -> Iterator[tuple[CheckpointFormat, Struct, tuple[str, ...]]]:
    """Yield the possible formats of a file; some differ by their checksum only."""
    if "podEntries" in document:
        yield CheckpointFormat.V2, layout.V2, (layout.TYPE_NAME,)
        return
    nodes = document.get("machineState")
    found = list(nodes.values()) if isinstance(nodes, dict) else []
    has_old_name = any(isinstance(node, dict) and "nodes" in node for node in found)
    if not has_old_name:
        # 1.36 writes the checksum with the type name MemoryManagerCheckpointV1 and reads both.
        yield CheckpointFormat.V1, layout.V1, (layout.TYPE_NAME, f"{layout.TYPE_NAME}V1")
        yield CheckpointFormat.V2, layout.V2, (layout.TYPE_NAME,)
    if has_old_name or not found:
        yield CheckpointFormat.ALPHA, layout.ALPHA, (layout.TYPE_NAME,)


def _parse_v3(document: Mapping[str, object]) -> Checkpoint:
    """Read format V3. The fields beside `data` are for older kubelets."""
    outer = read(layout.V3, document, "")
    value = read(layout.DATA, _load(outer["data"], "data: "), "data")
    stored, expected = outer["dataChecksum"], layout.fnv1a(f"(string){outer['data']}")
    return _checkpoint(CheckpointFormat.V3, layout.DATA, value, stored, expected)


def verify(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError if the checksum is wrong; V1 may lack it."""
    if not (checkpoint.is_verified or checkpoint.has_no_checksum):
        raise CheckpointError(
            f"the checkpoint is corrupted: its checksum is {checkpoint.checksum}, its content "
            f"gives {checkpoint.expected_checksum}; it was edited or damaged after it was written"
        )


def _load(content: str | bytes, origin: str) -> Mapping[str, object]:
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        document = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        problem = f"{origin}byte {error.start} is not UTF-8; this is not a state file"
        raise CheckpointError(problem) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        problem = f"{origin}invalid JSON at {where} ({error.msg}); the file may be truncated"
        raise CheckpointError(problem) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{origin}not JSON of the kubelet ({error})") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{origin}not a JSON object; this is not a state file")
    return document


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


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
        raise CheckpointError(f"{place}: null instead of a NUMA node")
    tables = node["memoryMap"] or {}
    for resource, table in tables.items():
        if table is None:
            raise CheckpointError(f"{place}.memoryMap.{shown(resource)}: null instead of a table")
    return NodeState(
        node["numberOfAssignments"],
        {name: Table(*(table[key] for key in TABLE_KEYS)) for name, table in tables.items()},
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


def format_checkpoint_v1(accounting: State, policy_name: str) -> str:
    """Return a state as a file of format V1, byte for byte as the kubelet writes it.

    `policy_name` is the kubelet's name, "Static" or "None".
    """
    value: dict[str, Value] = {
        "policyName": policy_name,
        "machineState": {
            node_id: node_json(node) for node_id, node in accounting.machine_state.items()
        },
        "entries": entries_json(accounting.assignments),
        "checksum": 0,
    }
    checksum = layout.fnv1a(f"(*state.{layout.TYPE_NAME}){hashed_text(layout.V1, value)}")
    return json_text(layout.V1, {**value, "checksum": checksum})
