"""What each NUMA node had for a rejected request, as parts of a text."""

from random import Random

import pytest

from nri_numamem.memorymanager import NodeVerdict, Table
from nri_numamem.memorymanager.node_reasons import Reason, Rule
from nri_numamem.memorymanager.node_verdicts import (
    by_rule,
    compact,
    format_node_ids,
    node_facts,
    one_by_one,
    origin_of,
)

GI = 1 << 30
SHORT = Reason(Rule.NOT_ENOUGH_FREE, "4Gi short")
GROUPED = Reason(Rule.OTHER_GROUP, "in group 3-4 with 1Gi free")


def verdict(node_id: int, free_gi: int, reason: Reason = SHORT) -> NodeVerdict:
    table = Table(8 * GI, GI, 7 * GI, (7 - free_gi) * GI, free_gi * GI)
    return NodeVerdict(node_id, {"memory": table}, reason)


VERDICTS = (verdict(0, 3), verdict(1, 3), verdict(2, 5), verdict(3, 1, GROUPED))


def with_pages(node_id: int, memory: int, pages: int, non_pod: int = 0) -> NodeVerdict:
    """Return a node with free bytes of memory and of 1Gi pages."""
    tables = {
        "memory": Table(64 * GI, 0, 56 * GI, 56 * GI - memory, memory),
        "hugepages-1Gi": Table(8 * GI, 0, 8 * GI, 8 * GI - pages - non_pod, pages),
    }
    return NodeVerdict(node_id, tables, SHORT)


def test_nodes_with_equal_text_share_a_part() -> None:
    assert one_by_one(VERDICTS) == [
        "NUMA nodes 0-1: 3Gi free of 7Gi allocatable, 4Gi short",
        "NUMA node 2: 5Gi free of 7Gi allocatable, 4Gi short",
        "NUMA node 3: 1Gi free of 7Gi allocatable, in group 3-4 with 1Gi free",
    ]
    assert compact(VERDICTS) == ["free per NUMA node: 0-1: 3Gi · 2: 5Gi · 3: 1Gi"]
    assert by_rule(VERDICTS) == [
        "NUMA nodes 0-2: at most 5Gi free, not enough free",
        "NUMA node 3: at most 1Gi free, in other groups",
    ]


def test_the_origin_of_an_allocatable_amount() -> None:
    table = VERDICTS[0].tables["memory"]
    assert origin_of("memory", table) == "8Gi less 1Gi reservedMemory"
    assert origin_of("hugepages-1Gi", Table(GI, 0, GI, 0, GI)) == ""
    (part, *_) = one_by_one(VERDICTS, origin=origin_of)
    assert "(8Gi less 1Gi reservedMemory)" in part


def test_the_form_depends_on_the_room() -> None:
    forms = [node_facts(VERDICTS, room) for room in (900, 200, 150, 105)]
    assert forms == [
        "; ".join(one_by_one(VERDICTS, origin=origin_of)),
        "; ".join(one_by_one(VERDICTS)),
        f"{compact(VERDICTS)[0]}; NUMA nodes 0-2: not enough free; NUMA node 3: in other groups",
        "; ".join(by_rule(VERDICTS)),
    ]
    assert node_facts((), 900) == ""


def test_several_resources_have_their_amounts_for_each_node() -> None:
    verdicts = [
        with_pages(0, 10205 * GI // 1024, 4 * GI),
        *(with_pages(n, 34785 * GI // 1024, 0) for n in (1, 2)),
        with_pages(3, 0, 2 * GI, non_pod=GI),
    ]
    assert compact(verdicts) == [
        "1Gi of hugepages-1Gi used outside of pods",
        "free memory, hugepages-1Gi per NUMA node: 0: 9.96Gi, 4Gi · 1-2: 33.96Gi, 0 · 3: 0, 2Gi",
    ]
    text = node_facts(verdicts, 220)
    assert text == "; ".join([*compact(verdicts), "NUMA nodes 0-3: not enough free"])
    assert node_facts(verdicts, 140) == "; ".join(compact(verdicts))


def amounts_of(text: str) -> dict[int, tuple[str, str]]:
    """Return the amounts of each node in a compact text of two resources."""
    nodes = text.partition("per NUMA node: ")[2].partition(";")[0]
    found: dict[int, tuple[str, str]] = {}
    for part in nodes.split(" · "):
        ids, colon, amounts = part.partition(": ")
        if colon:
            memory, pages = amounts.split(", ")
            for text_of_id in ids.split(","):
                first, _, last = text_of_id.partition("-")
                for node_id in range(int(first), int(last or first) + 1):
                    found[node_id] = (memory, pages)
    return found


@pytest.mark.parametrize("count", [2, 4, 8, 16, 24, 32, 48, 64])
def test_no_amount_of_one_node_is_beside_that_of_another(count: int) -> None:
    random = Random(count)
    verdicts = [
        with_pages(n, random.randint(0, 56 * 1024) * (GI // 1024), random.randint(0, 8) * GI)
        for n in range(count)
    ]
    text = node_facts(verdicts, 500)
    assert len(text) <= 500
    assert "at most" not in text
    if " free of " in text:
        return
    shown = amounts_of(text)
    by_id = {each.node_id: each for each in verdicts}
    for node_id, amounts in shown.items():
        (only,) = amounts_of(compact([by_id[node_id]])[0]).values()
        assert amounts == only
    if len(shown) < count:
        assert text.endswith(f" · {count - len(shown)} other nodes")
        left = [by_id[n].tables["memory"].free for n in by_id if n not in shown]
        assert max(left) <= min(by_id[n].tables["memory"].free for n in shown)
    assert len(shown) >= min(count, 16)


def test_a_room_that_is_too_small_has_one_node() -> None:
    verdicts = [with_pages(n, n * GI, 0) for n in range(3)]
    assert node_facts(verdicts, 1).endswith("2: 2Gi, 0 · 2 other nodes")
    assert node_facts(verdicts[:1], 1).endswith("per NUMA node: 0: 0, 0")


def test_node_ids() -> None:
    assert format_node_ids([2]) == "NUMA node 2"
    assert format_node_ids([0, 1, 3]) == "NUMA nodes 0-1,3"
