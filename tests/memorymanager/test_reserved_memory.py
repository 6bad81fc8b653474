import re

import pytest

from nri_numamem.memorymanager import Reservation, ReservedMemoryError
from nri_numamem.memorymanager.reserved_memory import (
    check_reserved,
    parse_reserved_memory,
    reservations_of,
)
from nri_numamem.numa import Machine, NumaNode

MI, GI = 2**20, 2**30
MACHINE = Machine((NumaNode(0, 8 * GI, {2 * MI: 512}), NumaNode(3, 4 * GI)))


def test_parse_the_flag() -> None:
    text = "0:memory=1Gi,hugepages-2Mi=4Mi;3:memory=512Mi"
    entries = parse_reserved_memory(text)
    assert entries == (
        Reservation(0, {"memory": GI, "hugepages-2Mi": 4 * MI}),
        Reservation(3, {"memory": 512 * MI}),
    )
    assert parse_reserved_memory("") == ()
    assert parse_reserved_memory("0:memory=1,memory=2") == (Reservation(0, {"memory": 2}),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "memory=1Gi",
            (
                "the reserved memory has incorrect format, "
                "expected numaNodeID:type=quantity[,type=quantity...], got memory=1Gi"
            ),
        ),
        (
            "0:memory=1Gi:1",
            (
                "the reserved memory has incorrect format, "
                "expected numaNodeID:type=quantity[,type=quantity...], got 0:memory=1Gi:1"
            ),
        ),
        (
            "0:memory=1Gi;",
            (
                "the reserved memory has incorrect format, "
                "expected numaNodeID:type=quantity[,type=quantity...], got "
            ),
        ),
        ("a:memory=1Gi", "failed to convert the NUMA node ID, exptected integer, got a"),
        (
            "0:memory",
            "the reserved limit has incorrect value, expected type=quantatity, got memory",
        ),
        (
            "0:memory=1Gi=2",
            "the reserved limit has incorrect value, expected type=quantatity, got memory=1Gi=2",
        ),
        ("0:cpu=1", 'memory type conversion error, unknown type: "cpu"'),
        ("0:memory=x", "failed to parse the quantatity, expected quantatity, got x"),
    ],
)
def test_errors_have_the_kubelets_texts(text: str, problem: str) -> None:
    with pytest.raises(ReservedMemoryError, match=f"^{re.escape(problem)}$"):
        parse_reserved_memory(text)


def test_the_result_has_every_node() -> None:
    entries = [
        Reservation(0, {"memory": GI}),
        Reservation(0, {"hugepages-2048Ki": 4 * MI}),
    ]
    reserved = check_reserved(entries, MACHINE)
    assert reserved == {0: {"memory": GI, "hugepages-2Mi": 4 * MI}, 3: {}}
    assert reservations_of(reserved) == (Reservation(0, reserved[0]),)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (
            [(1, {"memory": GI})],
            (
                "reservedMemory[0]: the reserved memory configuration references a NUMA node 1 "
                "that does not exist on this machine; its NUMA nodes are 0,3"
            ),
        ),
        ([(0, {"memory": 0})], "reservedMemory[0].limits.memory: the limit is zero; "),
        ([(0, {"cpu": 1})], "reservedMemory[0].limits.cpu: unknown type; use memory or a huge"),
        ([(0, {"hugepages-3Mi": 1})], "reservedMemory[0].limits.hugepages-3Mi: unknown type; "),
        (
            [(0, {"hugepages-1Gi": GI})],
            (
                "reservedMemory[0].limits.hugepages-1Gi: NUMA node 0 has no such pages; "
                "its pools are: hugepages-2Mi"
            ),
        ),
        (
            [(3, {"hugepages-2Mi": MI})],
            (
                "reservedMemory[0].limits.hugepages-2Mi: NUMA node 3 has no such pages; "
                "its pools are: none"
            ),
        ),
        (
            [(0, {"memory": 1}), (0, {"memory": 2})],
            "reservedMemory[1].limits.memory: memory of NUMA node 0 is reserved twice; ",
        ),
        (
            [(0, {"hugepages-2Mi": 1, "hugepages-2048Ki": 2})],
            "reservedMemory[0].limits.hugepages-2048Ki: hugepages-2Mi of NUMA node 0 is reserved ",
        ),
        (
            [(0, {"memory": 7 * GI + 1})],
            (
                "reservedMemory[0].limits.memory: 7516192769 do not fit on NUMA node 0, which has "
                "7Gi besides its hugepages; "
            ),
        ),
        (
            [(0, {"hugepages-2Mi": 2 * GI})],
            "reservedMemory[0].limits.hugepages-2Mi: 2Gi do not fit on NUMA node 0, which has 1Gi",
        ),
    ],
)
def test_invalid_reservations(entries: list[tuple[int, dict[str, int]]], problem: str) -> None:
    reservations = [Reservation(node_id, limits) for node_id, limits in entries]
    with pytest.raises(ReservedMemoryError, match=f"^{re.escape(problem)}") as caught:
        check_reserved(reservations, MACHINE)
    place = problem.partition(":")[0]
    setting, index, *below = caught.value.path
    assert place.startswith(f"{setting}[{index}]")
    assert below in (["numaNode"], ["limits", place.rpartition(".")[2]])
