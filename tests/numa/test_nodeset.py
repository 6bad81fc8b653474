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
