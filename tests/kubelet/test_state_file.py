"""State files of all formats, among them real files with their checksums."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.kubelet.state_file import (
    Checkpoint,
    CheckpointError,
    CheckpointFormat,
    format_checkpoint_v1,
    parse_checkpoint,
    verify,
)
from nri_numamem.kubelet.state_layout import fnv1a
from nri_numamem.memorymanager import Block, NodeState, State, Table
from nri_numamem.numa import NodeSet

FOLDER = Path(__file__).parent.parent / "cases" / "state"
ALPHA = (FOLDER / "alpha-1.21-two-nodes.json").read_bytes()
V1 = (FOLDER / "v1-one-node.json").read_bytes()
WITHOUT_CHECKSUM = V1.decode().partition(',"checksum"')[0]
POD_ENTRIES = {"pod": {"memoryBlocks": [{"numaAffinity": [0], "type": "memory", "size": 512}]}}
# The sums of three files that the kubelet's own tests restore.
V2 = f'{WITHOUT_CHECKSUM},"podEntries":{json.dumps(POD_ENTRIES)},"checksum":1278640530}}'
V3_DATA = f"{WITHOUT_CHECKSUM}}}"
V3 = json.dumps({"policyName": "other", "checksum": 1, "data": V3_DATA, "dataChecksum": 1849615440})
V3_WITH_MORE = json.dumps(
    {
        "data": V3_DATA.replace("{", '{"unknownField":"value",', 1),
        "dataChecksum": 2100279793,
    }
)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (ALPHA, CheckpointFormat.ALPHA),
        (V1, CheckpointFormat.V1),
        (V2, CheckpointFormat.V2),
        (V3, CheckpointFormat.V3),
        (V3_WITH_MORE, CheckpointFormat.V3),
    ],
)
def test_real_files_have_right_checksums(content: str | bytes, kind: CheckpointFormat) -> None:
    checkpoint = parse_checkpoint(content)
    verify(checkpoint)
    assert checkpoint.format is kind
    assert checkpoint.checksum == checkpoint.expected_checksum
    assert checkpoint.policy_name == "static"


def test_content() -> None:
    checkpoint = parse_checkpoint(V2)
    table = Table(2048, 512, 1536, 512, 1024)
    block = Block(NodeSet([0]), "memory", 512)
    assert checkpoint.machine_state == {0: NodeState(0, {"memory": table}, NodeSet())}
    assert checkpoint.entries == {"pod": {"container1": (block,)}}
    assert checkpoint.pod_entries == {"pod": (block,)}


def test_groups_have_the_key_nodes_in_the_alpha() -> None:
    checkpoint = parse_checkpoint(ALPHA)
    assert [node.cells for node in checkpoint.machine_state.values()] == [NodeSet([0, 1])] * 2


def _v2_of(machine_state: str) -> int:
    return fnv1a(
        "(*state.MemoryManagerCheckpoint){PolicyName:(string)None "
        f"MachineState:(state.NUMANodeMap){machine_state} "
        "Entries:(state.ContainerMemoryAssignments)map[] "
        "PodEntries:(state.PodMemoryAssignments)map[] Checksum:(checksum.Checksum)0}"
    )


def test_formats_that_differ_by_the_checksum_only() -> None:
    empty = '{"policyName":"None","machineState":{},"checksum":%d}'
    v2 = _v2_of("map[]")
    assert parse_checkpoint(empty % v2).format is CheckpointFormat.V2
    text = "{PolicyName:(string)None MachineState:(state.%s)map[] "
    text += "Entries:(state.ContainerMemoryAssignments)map[] Checksum:(checksum.Checksum)0}"
    alpha = fnv1a("(*state.MemoryManagerCheckpoint)" + text % "NodeMap")
    assert parse_checkpoint(empty % alpha).format is CheckpointFormat.ALPHA
    v1 = fnv1a("(*state.MemoryManagerCheckpoint)" + text % "NUMANodeMap")
    assert parse_checkpoint(empty % v1).format is CheckpointFormat.V1
    # 1.36 writes V1 under the new name of its type.
    renamed = fnv1a("(*state.MemoryManagerCheckpointV1)" + text % "NUMANodeMap")
    checkpoint = parse_checkpoint(empty % renamed)
    assert (checkpoint.format, checkpoint.is_verified) == (CheckpointFormat.V1, True)


def test_nil_differs_from_empty() -> None:
    checksum = _v2_of("<nil>")
    content = f'{{"policyName":"None","machineState":null,"podEntries":{{}},"checksum":{checksum}}}'
    assert parse_checkpoint(content).is_verified


def test_a_damaged_file_is_read_and_not_verified() -> None:
    checkpoint = parse_checkpoint(V1.replace(b"1536", b"1537"))
    assert checkpoint.machine_state[0].memory_map["memory"].allocatable == 1537
    with pytest.raises(CheckpointError) as failed:
        verify(checkpoint)
    assert "its checksum is 4215593881, its content gives " in str(failed.value)
    assert str(checkpoint.expected_checksum) in str(failed.value)


def test_a_checksum_of_zero_is_accepted_in_v1_only() -> None:
    verify(parse_checkpoint(f'{WITHOUT_CHECKSUM},"checksum":0}}'))
    missing = parse_checkpoint(f"{WITHOUT_CHECKSUM}}}")
    verify(missing)
    assert missing.has_no_checksum
    assert not missing.is_verified
    assert not parse_checkpoint(json.dumps({"data": V3_DATA})).is_verified
    zeroed = V2.replace("1278640530", "0")
    assert not parse_checkpoint(zeroed).is_verified


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "invalid JSON at line 1 column 1 (Expecting value); the file may be truncated"),
        (V1[:100], "invalid JSON at line 1 column 101"),
        ("{}", "none of policyName, machineState, data, dataChecksum is there"),
        ("[1]", "not a JSON object; this is not a state file"),
        (b"\xff{", "byte 0 is not UTF-8"),
        ("[" * 100_000, "not JSON of the kubelet"),
        ('{"policyName": NaN}', "NaN is not a number"),
        ('{"policyName": 1}', "policyName: 1 instead of a text"),
        ('{"machineState": []}', "machineState: a list instead of an object"),
        (
            '{"machineState": {"0": {"cells": {}}}}',
            "machineState.0.cells: an object instead of a",
        ),
        ('{"machineState": {"0": null}}', "machineState.0: null instead of a NUMA node"),
        ('{"machineState": {"x": {}}}', "machineState: x is not the id of a NUMA node"),
        ('{"machineState": {"4000": {}}}', "machineState: NUMA node id 4000 is not between"),
        (
            '{"machineState": {"0": {"memoryMap": {"memory": null}}}}',
            "machineState.0.memoryMap.memory: null instead of a table",
        ),
        (
            '{"machineState": {"0": {"memoryMap": {"memory": {"free": -1}}}}}',
            "machineState.0.memoryMap.memory.free: -1 instead of a number",
        ),
        (
            '{"machineState": {}, "entries": {"p": {"c": [{"numaAffinity": [-1]}]}}}',
            "entries.p.c[0]: NUMA node id -1 is not between",
        ),
        ('{"data": "{"}', "data: invalid JSON at line 1 column 2"),
        ('{"dataChecksum": 5}', "data: invalid JSON at line 1 column 1"),
        ('{"data": "{\\"machineState\\": 1}"}', "data.machineState: 1 instead of an object"),
    ],
)
def test_invalid_files(content: str | bytes, problem: str) -> None:
    with pytest.raises(CheckpointError) as failed:
        parse_checkpoint(content)
    assert problem in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1


def _survives(content: str | bytes) -> None:
    """Read anything; only one kind of error, in one line, may come of it."""
    problem = "none"
    try:
        checkpoint = parse_checkpoint(content)
        assert isinstance(checkpoint, Checkpoint)
        verify(checkpoint)
    except CheckpointError as error:
        problem = str(error)
    assert len(problem.splitlines()) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    _survives(content)


_KEYS = ("policyName", "machineState", "entries", "podEntries", "data", "dataChecksum", "checksum")
_INNER = ("0", "cells", "nodes", "memoryMap", "memory", "free", "numaAffinity", "\x1b", "\ud800")
_NAMES = st.sampled_from(_KEYS + _INNER)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=5))
def test_any_json_is_parsed_or_refused(document: dict[str, Any]) -> None:
    _survives(json.dumps(document))


@pytest.mark.parametrize("content", [ALPHA, V1, V2.encode(), V3.encode()])
def test_single_mutations_of_real_files(content: bytes) -> None:
    chance = random.Random(7)
    for _ in range(300):
        changed = bytearray(content)
        position = chance.randrange(len(changed))
        match chance.randrange(3):
            case 0:
                changed[position] = chance.randrange(256)
            case 1:
                del changed[position:]
            case _:
                del changed[position]
        _survives(bytes(changed))


def test_export_has_the_kubelets_own_bytes() -> None:
    checkpoint = parse_checkpoint(V1)
    accounting = State(checkpoint.machine_state, checkpoint.entries)
    assert format_checkpoint_v1(accounting, "static").encode() == V1


def test_export_orders_and_escapes_as_go_does() -> None:
    table = Table(5, 1, 4, 0, 4)
    node = NodeState(0, {"memory": table, "hugepages-2Mi": table}, NodeSet([10]))
    block = Block(NodeSet([2, 10]), "memory", 1)
    accounting = State(
        {2: node, 10: node}, {"b<&>\u2028\n\x7f": {"c": (block,)}, "a\U0001f600": {"c": ()}}
    )
    text = format_checkpoint_v1(accounting, "Static")
    assert text.startswith('{"policyName":"Static","machineState":{"10":{"numberOfAssignments":0,')
    assert text.index('"10":') < text.index('"2":')
    assert text.index('"hugepages-2Mi"') < text.index('"memory"')
    assert '"a\U0001f600":{"c":[]}' in text
    assert '"b\\u003c\\u0026\\u003e\\u2028\\n\x7f":{"c":[{"numaAffinity":[2,10],' in text
    again = parse_checkpoint(text)
    assert again.is_verified
    assert again.checksum
    assert again.machine_state == accounting.machine_state
    assert again.entries == accounting.assignments


def test_export_leaves_out_empty_entries() -> None:
    text = format_checkpoint_v1(State({}), "None")
    assert text.startswith('{"policyName":"None","machineState":{},"checksum":')
    assert parse_checkpoint(text).is_verified


def test_lone_surrogates_are_decoded_as_in_go() -> None:
    checkpoint = parse_checkpoint('{"policyName": "\\ud800", "entries": {"\\udfff": null}}')
    assert checkpoint.policy_name == "\N{REPLACEMENT CHARACTER}"
    assert checkpoint.entries == {"\N{REPLACEMENT CHARACTER}": {}}


@pytest.mark.parametrize("key", ["defaultCpuSet", "defaultCPUSet"])
def test_the_cpu_managers_state_is_recognized(key: str) -> None:
    content = json.dumps({"policyName": "static", key: "0-3", "entries": {}, "checksum": 5})
    with pytest.raises(CheckpointError, match="CPU manager; give the file memory_manager_state"):
        parse_checkpoint(content)
