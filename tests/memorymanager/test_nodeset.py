import copy
import pickle
from random import Random

import pytest

from nri_numamem.memorymanager import NodeSet
from nri_numamem.memorymanager.nodeset import NODE_ID_LIMIT


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([0, 1, 3], "0-1,3"),
        ([5, 1, 2, 3], "1-3,5"),
        ([252, 253, 255], "252-253,255"),
        ([1023], "1023"),
        (range(1024), "0-1023"),
    ],
)
def test_text_is_the_kernels_list(ids: list[int], text: str) -> None:
    assert str(NodeSet(ids)) == text
    assert NodeSet.parse(text) == NodeSet(ids)
    assert repr(NodeSet(ids)) == f"NodeSet.parse({text!r})"


@pytest.mark.parametrize("seed", range(5))
def test_text_and_set_belong_together(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        ids = random.sample(range(NODE_ID_LIMIT), random.randint(0, 40))
        nodes = NodeSet(ids)
        assert NodeSet.parse(str(nodes)) == nodes
        assert list(nodes) == sorted(ids)
        assert len(nodes) == len(ids)


def test_parse_takes_what_a_sysfs_file_holds() -> None:
    assert NodeSet.parse(" 0-1, 3\n") == NodeSet([0, 1, 3])
    assert NodeSet.parse("1,1,0-2") == NodeSet([0, 1, 2])
    assert NodeSet.parse("\n") == NodeSet()


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "1,,2", ",", "2-1", "1024", "0-1024", "1 2", "٣", "00001", "0x1"]
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="NUMA nodes"):
        NodeSet.parse(text)


@pytest.mark.parametrize("node_id", [-1, 1024])
def test_ids_have_a_range(node_id: int) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1023"):
        NodeSet([node_id])


@pytest.mark.parametrize("mask", [-1, 1 << 1024])
def test_masks_have_a_range(mask: int) -> None:
    with pytest.raises(ValueError, match="outside the range"):
        NodeSet.from_mask(mask)


def test_set_operations() -> None:
    a, b = NodeSet([0, 1, 2]), NodeSet([2, 3])
    assert a | b == NodeSet([0, 1, 2, 3])
    assert a & b == NodeSet([2])
    assert a - b == NodeSet([0, 1])
    assert NodeSet([1, 2]).issubset(a)
    assert not b.issubset(a)
    assert NodeSet([4]).isdisjoint(a)
    assert not b.isdisjoint(a)
    assert 2 in a
    assert 3 not in a
    assert -1 not in a
    assert bool(a)
    assert not NodeSet()


def test_it_is_a_value() -> None:
    nodes = NodeSet([1, 4])
    assert nodes == NodeSet.from_mask(0b10010)
    assert hash(nodes) == hash(NodeSet([4, 1]))
    assert nodes != 0b10010
    assert copy.deepcopy(nodes) == pickle.loads(pickle.dumps(nodes)) == nodes  # noqa: S301
    with pytest.raises(AttributeError, match="immutable"):
        nodes.mask = 1
    with pytest.raises(AttributeError, match="immutable"):
        del nodes.mask
