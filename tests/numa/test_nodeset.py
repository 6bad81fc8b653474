import pytest

from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.numa.nodeset import NODE_ID_LIMIT


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
