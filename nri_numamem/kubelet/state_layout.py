"""The Go types of the kubelet's state file in each format, and the hash of its checksum.

The names of types and fields are those in the file and in the text for the checksum. Source:
kubelet memorymanager/state, checkpoint.go and state.go of 1.21 to 1.37.
"""

from nri_numamem.kubelet.go_values import (
    INT,
    STRING,
    UINT64,
    Field,
    ListOf,
    MapOf,
    PointerTo,
    Struct,
)

# FNV-1a with 32 bits; Source: Fowler, Noll, Vo.
_FNV_OFFSET = 2166136261
_FNV_PRIME = 16777619

_TABLE = Struct(
    tuple(
        Field(name, key, UINT64, "uint64")
        for name, key in (
            ("TotalMemSize", "total"),
            ("SystemReserved", "systemReserved"),
            ("Allocatable", "allocatable"),
            ("Reserved", "reserved"),
            ("Free", "free"),
        )
    )
)
_BLOCK = Struct(
    (
        Field("NUMAAffinity", "numaAffinity", ListOf(INT), "[]int"),
        Field("Type", "type", STRING, "v1.ResourceName"),
        Field("Size", "size", UINT64, "uint64"),
    )
)
_POLICY = Field("PolicyName", "policyName", STRING, "string")
_ENTRIES = Field(
    "Entries",
    "entries",
    MapOf(MapOf(ListOf(_BLOCK))),
    "state.ContainerMemoryAssignments",
    omit_empty=True,
    starts_empty=True,
)
_POD_ENTRY = Struct((Field("MemoryBlocks", "memoryBlocks", ListOf(_BLOCK), "[]state.Block"),))
_POD_ENTRIES = Field(
    "PodEntries",
    "podEntries",
    MapOf(_POD_ENTRY),
    "state.PodMemoryAssignments",
    omit_empty=True,
    starts_empty=True,
)
_CHECKSUM = Field("Checksum", "checksum", UINT64, "checksum.Checksum")


def _machine_state(group: Field, type_name: str) -> Field:
    tables = MapOf(PointerTo(_TABLE))
    node = Struct(
        (
            Field("NumberOfAssignments", "numberOfAssignments", INT, "int"),
            Field("MemoryMap", "memoryMap", tables, "map[v1.ResourceName]*state.MemoryTable"),
            group,
        )
    )
    nodes = MapOf(PointerTo(node), has_integer_keys=True)
    return Field("MachineState", "machineState", nodes, type_name, starts_empty=True)


_ALPHA_MACHINE = _machine_state(Field("Nodes", "nodes", ListOf(INT), "[]int"), "state.NodeMap")
_MACHINE = _machine_state(Field("Cells", "cells", ListOf(INT), "[]int"), "state.NUMANodeMap")

ALPHA = Struct((_POLICY, _ALPHA_MACHINE, _ENTRIES, _CHECKSUM))
V1 = Struct((_POLICY, _MACHINE, _ENTRIES, _CHECKSUM))
V2 = Struct((_POLICY, _MACHINE, _ENTRIES, _POD_ENTRIES, _CHECKSUM))
V3 = Struct(
    (Field("Data", "data", STRING, "string"), Field("", "dataChecksum", UINT64, "checksum"))
)
DATA = Struct((_POLICY, _MACHINE, _ENTRIES, _POD_ENTRIES))

TYPE_NAME = "MemoryManagerCheckpoint"


def fnv1a(text: str) -> int:
    """Return the FNV-1a hash of the text's UTF-8 bytes, with 32 bits."""
    digest = _FNV_OFFSET
    for byte in text.encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return digest
