"""The types of the state file against the lists of keys that other modules use."""

import pytest

from nri_numamem.kubelet.go_values import Field, ListOf, MapOf, PointerTo, Struct
from nri_numamem.kubelet.state_layout import ALPHA, DATA, V1, V2, V3, fnv1a
from nri_numamem.memorymanager.state_json import BLOCK_KEYS, NODE_KEYS, TABLE_KEYS


def field(struct: Struct, key: str) -> Field:
    (found,) = (each for each in struct.fields if each.key == key)
    return found


def keys(struct: Struct) -> tuple[str, ...]:
    return tuple(each.key for each in struct.fields)


def node_of(layout: Struct) -> Struct:
    nodes = field(layout, "machineState").kind
    assert isinstance(nodes, MapOf)
    assert nodes.has_integer_keys
    assert isinstance(nodes.element, PointerTo)
    return nodes.element.struct


@pytest.mark.parametrize("layout", [V1, V2, DATA])
def test_nodes_and_tables_have_the_keys_that_are_written(layout: Struct) -> None:
    assert keys(node_of(layout)) == NODE_KEYS
    tables = field(node_of(layout), "memoryMap").kind
    assert isinstance(tables, MapOf)
    assert isinstance(tables.element, PointerTo)
    assert keys(tables.element.struct) == TABLE_KEYS


def test_blocks_have_the_keys_that_are_written() -> None:
    containers = field(V1, "entries").kind
    assert isinstance(containers, MapOf)
    assert isinstance(containers.element, MapOf)
    blocks = containers.element.element
    assert isinstance(blocks, ListOf)
    assert isinstance(blocks.element, Struct)
    assert keys(blocks.element) == BLOCK_KEYS


def test_differences_of_the_formats() -> None:
    assert keys(node_of(ALPHA)) == ("numberOfAssignments", "memoryMap", "nodes")
    assert set(keys(V2)) - set(keys(V1)) == {"podEntries"}
    assert keys(V3) == ("data", "dataChecksum")
    assert "checksum" not in keys(DATA)


@pytest.mark.parametrize(
    ("text", "digest"),
    # Test vectors of the authors of the hash.
    [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)],
)
def test_fnv1a(text: str, digest: int) -> None:
    assert fnv1a(text) == digest
