"""Remedies as values with a text."""

import pytest

from nri_numamem.memorymanager.remedy import TEXT_LIMIT, Kind, Remedy, joined
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import parse_quantity

GI = 1 << 30
BOTH = {"memory": 7 * GI + 1, "hugepages-1Gi": 2 * GI}


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (
            Remedy(Kind.FREE_HUGEPAGES, NodeSet([1]), {"hugepages-1Gi": 4 * GI}),
            "free hugepages-1Gi 4Gi on NUMA node 1, used outside of pods",
        ),
        (
            Remedy(Kind.RESERVE_HUGEPAGES, NodeSet([0]), {"hugepages-1Gi": 4 * GI}),
            "reserve hugepages-1Gi 4Gi on NUMA node 0",
        ),
        (Remedy(Kind.MAKE_ROOM, NodeSet([1]), {"memory": 7 * GI}), "make room on NUMA node 1: 7Gi"),
        (
            Remedy(Kind.MAKE_ROOM, NodeSet([0, 1]), BOTH),
            "make room on NUMA nodes 0-1: memory 7.01Gi, hugepages-1Gi 2Gi",
        ),
        (Remedy(Kind.EMPTY_NODES, NodeSet([0, 1])), "end the pods on NUMA nodes 0-1"),
        (
            Remedy(Kind.CHANGE_SETTING, setting="x", values=("a", "b")),
            "set x a or b",
        ),
        (Remedy(Kind.END_PODS, pods={"u": "ns/a", "v": "v"}), "end ns/a and v"),
        (Remedy(Kind.REQUEST_LESS, amounts=BOTH), ""),
    ],
)
def test_texts(remedy: Remedy, text: str) -> None:
    if text:
        assert remedy.text == text
    else:
        amounts = remedy.text.removeprefix("request at most ").split(", ")
        found = dict(amount.split(" ") for amount in amounts)
        # The amounts are exact, and a pod's specification can have them.
        assert {name: parse_quantity(value) for name, value in found.items()} == BOTH


def test_every_kind_has_a_text() -> None:
    for kind in Kind:
        assert Remedy(kind, NodeSet([0]), {"memory": 1}, "s", ("v",), {"u": "p"}).text


def test_the_first_remedies_are_joined() -> None:
    found = [Remedy(Kind.MAKE_ROOM, NodeSet([n]), {"memory": GI}) for n in range(20)]
    assert joined(found[:2]) == "make room on NUMA node 0: 1Gi, or make room on NUMA node 1: 1Gi"
    assert joined(()) == ""
    assert len(joined(found)) <= TEXT_LIMIT
    assert joined(found, 5) == found[0].text
