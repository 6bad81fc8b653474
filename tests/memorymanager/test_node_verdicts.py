"""What each NUMA node had for a rejected request, as parts of a text."""

from nri_numamem.memorymanager import NodeVerdict, Table
from nri_numamem.memorymanager.node_verdicts import (
    by_rule,
    format_node_ids,
    one_by_one,
    origin_of,
    prefixes_of,
)

GI = 1 << 30


def verdict(node_id: int, free_gi: int, rule: str = "unused") -> NodeVerdict:
    table = Table(8 * GI, GI, 7 * GI, (7 - free_gi) * GI, free_gi * GI)
    return NodeVerdict(node_id, {"memory": table}, rule)


VERDICTS = (
    verdict(0, 3),
    verdict(1, 3),
    verdict(2, 5),
    verdict(3, 1, "in group 3-4 with 1Gi free"),
)


def test_nodes_with_equal_text_share_a_part() -> None:
    prefixes = prefixes_of({"memory": GI})
    assert one_by_one(VERDICTS, prefixes) == [
        "NUMA nodes 0-1: 3Gi free of 7Gi allocatable, unused",
        "NUMA node 2: 5Gi free of 7Gi allocatable, unused",
        "NUMA node 3: 1Gi free of 7Gi allocatable, in group 3-4 with 1Gi free",
    ]
    assert by_rule(VERDICTS, prefixes) == [
        "NUMA nodes 0-2: at most 5Gi free, unused",
        "NUMA node 3: at most 1Gi free, in other groups",
    ]


def test_the_origin_of_an_allocatable_amount() -> None:
    table = VERDICTS[0].tables["memory"]
    assert origin_of("memory", table) == "8Gi less 1Gi reservedMemory"
    assert origin_of("hugepages-1Gi", Table(GI, 0, GI, 0, GI)) == ""
    (part, *_) = one_by_one(VERDICTS, prefixes_of({"memory": GI}), origin=origin_of)
    assert "(8Gi less 1Gi reservedMemory)" in part


def test_resources_are_named_only_beside_others() -> None:
    assert prefixes_of({"memory": 1}) == {"memory": ""}
    assert prefixes_of({"hugepages-1Gi": 1, "memory": 1}) == {
        "memory": "memory ",
        "hugepages-1Gi": "hugepages-1Gi ",
    }


def test_node_ids() -> None:
    assert format_node_ids([2]) == "NUMA node 2"
    assert format_node_ids([0, 1, 3]) == "NUMA nodes 0-1,3"
