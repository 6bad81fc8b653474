"""What NodeSet and CpuSet share: set operations, the kernel's list format, immutability."""

import copy
import pickle
from random import Random

import pytest

from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.numa.idset import CPU_ID_LIMIT, NODE_ID_LIMIT, IdSet

KINDS = pytest.mark.parametrize("kind", [NodeSet, CpuSet])


@KINDS
@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([0, 1, 3], "0-1,3"),
        ([5, 1, 2, 3], "1-3,5"),
        ([252, 253, 255], "252-253,255"),
        (range(1024), "0-1023"),
    ],
)
def test_text_is_the_kernels_list(kind: type[IdSet], ids: list[int], text: str) -> None:
    assert str(kind(ids)) == text
    assert kind.parse(text) == kind(ids)
    assert repr(kind(ids)) == f"{kind.__name__}.parse({text!r})"


@KINDS
@pytest.mark.parametrize("seed", range(5))
def test_parse_reads_back_what_str_writes(kind: type[IdSet], seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        ids = random.sample(range(kind.LIMIT), random.randint(0, 40))
        found = kind(ids)
        assert kind.parse(str(found)) == found
        assert list(found) == sorted(ids)
        assert len(found) == len(ids)


@KINDS
def test_parse_accepts_white_space_and_repeated_ids(kind: type[IdSet]) -> None:
    assert kind.parse(" 0-1, 3\n") == kind([0, 1, 3])
    assert kind.parse("1,1,0-2") == kind([0, 1, 2])
    assert kind.parse("\n") == kind()


@KINDS
@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "1,,2", ",", "2-1", "9999", "0-9999", "1 2", "٣", "00001", "0x1"]
)
def test_parse_raises_for_any_other_text(kind: type[IdSet], text: str) -> None:
    with pytest.raises(ValueError, match=f"is not a (list|range) of {kind.NAME}s"):
        kind.parse(text)


@KINDS
def test_ids_and_masks_have_a_range(kind: type[IdSet]) -> None:
    for each in (-1, kind.LIMIT):
        with pytest.raises(ValueError, match=f"{kind.NAME} id {each} is not between 0 and"):
            kind([each])
    for mask in (-1, 1 << kind.LIMIT):
        with pytest.raises(ValueError, match="outside the range"):
            kind.from_mask(mask)
    assert list(kind.from_mask(1 << kind.LIMIT - 1)) == [kind.LIMIT - 1]


@KINDS
def test_set_operations(kind: type[IdSet]) -> None:
    a, b = kind([0, 1, 2]), kind([2, 3])
    assert a | b == kind([0, 1, 2, 3])
    assert a & b == kind([2])
    assert a - b == kind([0, 1])
    assert kind([1, 2]).issubset(a)
    assert not b.issubset(a)
    assert kind([4]).isdisjoint(a)
    assert not b.isdisjoint(a)
    assert 2 in a
    assert 3 not in a
    assert -1 not in a
    assert bool(a)
    assert not kind()


@KINDS
def test_a_set_is_an_immutable_value(kind: type[IdSet]) -> None:
    found = kind([1, 4])
    assert found == kind.from_mask(0b10010)
    assert hash(found) == hash(kind([4, 1]))
    assert found != 0b10010
    assert copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found  # noqa: S301
    with pytest.raises(AttributeError, match="immutable"):
        found.mask = 1
    with pytest.raises(AttributeError, match="immutable"):
        del found.mask


def test_node_ids_go_up_to_the_kernels_limit() -> None:
    assert NODE_ID_LIMIT == 1024
    assert list(NodeSet.parse("1023")) == [1023]
    with pytest.raises(ValueError, match="'1024' is not a range of NUMA nodes"):
        NodeSet.parse("1024")


def test_error_texts_name_numa_nodes() -> None:
    with pytest.raises(ValueError, match="'x' is not a list of NUMA nodes such as 0-1,3"):
        NodeSet.parse("x")


def test_a_node_set_equals_no_cpu_set() -> None:
    assert NodeSet([1]) != CpuSet([1])


def test_a_list_is_bounded_before_it_is_parsed() -> None:
    longest = ", ".join(f"{node}" for node in range(1024))
    assert len(NodeSet.parse(longest)) == 1024
    with pytest.raises(
        ValueError, match=r"'0,0,.*'\.\.\. is too long for a list of NUMA nodes"
    ) as error:
        NodeSet.parse("0," * 500_000 + "0")
    assert len(str(error.value)) < 200
    with pytest.raises(ValueError, match="is not a list") as error:
        NodeSet.parse("x" * 6000)
    assert len(str(error.value)) < 200


def test_cpu_ids_go_up_to_the_kernels_limit() -> None:
    assert CPU_ID_LIMIT == 8192
    assert list(CpuSet.parse("8190-8191")) == [8190, 8191]
    with pytest.raises(ValueError, match="'8192' is not a range of CPUs"):
        CpuSet.parse("8192")


def test_threads_of_one_socket() -> None:
    threads = CpuSet.parse("0-31,64-95\n")
    assert len(threads) == 64
    assert 63 not in threads
    assert str(threads) == "0-31,64-95"


def test_error_texts_name_cpus() -> None:
    with pytest.raises(ValueError, match="'x' is not a list of CPUs such as 0-1,3"):
        CpuSet.parse("x")
