import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.partitions.layouts import (
    accounting_by_partition,
    layout_of,
    nodes_of_partition,
)
from nri_numamem.engine.setup import new_context
from nri_numamem.numa import Exclusive, Machine, NodeSet, NumaNode, Partition, PartitionsError

GI = 1 << 30
MACHINE = Machine(tuple(NumaNode(number, 4 * GI) for number in range(4)))
WEB = Partition("web", NodeSet([2, 3]), namespaces=("web",), exclusive=Exclusive.GUARANTEED)
BATCH = Partition("batch", NodeSet([1]), namespaces=("batch",))


def context_with(*partitions: Partition, policy: str = "Static") -> Context:
    return new_context(MACHINE, Policy(memory_manager_policy=policy, partitions=partitions))


def test_each_partition_has_the_accounting_of_its_nodes() -> None:
    context = context_with(WEB, BATCH)
    found = accounting_by_partition(context, context.empty_accounting())
    assert [(each.partition.name, NodeSet(own.machine_state)) for each, own in found] == [
        ("web", NodeSet([2, 3])),
        ("batch", NodeSet([1])),
        ("default", NodeSet([0, 1])),
    ]


@pytest.mark.parametrize("context", [context_with(), context_with(WEB, policy="None")])
def test_without_effect_there_is_none(context: Context) -> None:
    assert list(accounting_by_partition(context, context.empty_accounting())) == []


def test_a_pod_stays_on_nodes_that_it_may_use() -> None:
    context = context_with(WEB, BATCH)
    found = [nodes_of_partition(context, node_id) for node_id in range(4)]
    assert found == [NodeSet([0]), NodeSet([1]), NodeSet([2, 3]), NodeSet([2, 3])]
    assert nodes_of_partition(context_with(), 0) is None


def test_partitions_that_leave_no_node_are_refused() -> None:
    rest = Partition("all", NodeSet([0, 1]), namespaces=("x",), exclusive=Exclusive.ALL)
    with pytest.raises(PartitionsError, match=r"have all NUMA nodes of this machine \(0-3\)"):
        context_with(WEB, rest)


def test_partitions_whose_nodes_are_missing_are_not() -> None:
    missing = Partition("gone", NodeSet([0, 1, 7]), namespaces=("x",), exclusive=Exclusive.ALL)
    layout = layout_of(context_with(WEB, missing))
    assert layout is not None
    assert [bool(each.problem) for each in layout.entries] == [False, True]
    assert layout.rest.nodes == NodeSet([0, 1])
