"""What each policy requires of a merged hint."""

import pytest

from nri_numamem.memorymanager import Hint
from nri_numamem.numa import NodeSet
from nri_numamem.topologymanager.policies import TopologyPolicy

PREFERRED = Hint(NodeSet([0, 1]), preferred=True)
OTHER = Hint(NodeSet([0, 1]), preferred=False)
SINGLE = Hint(NodeSet([1]), preferred=True)
ANYWHERE = Hint(None, preferred=True)


@pytest.mark.parametrize(
    ("policy", "admits_all", "admits_several_nodes"),
    [
        (TopologyPolicy.NONE, True, (True, True)),
        (TopologyPolicy.BEST_EFFORT, True, (True, True)),
        (TopologyPolicy.RESTRICTED, False, (True, False)),
        (TopologyPolicy.SINGLE_NUMA_NODE, False, (False, False)),
    ],
)
def test_what_a_policy_admits(
    policy: TopologyPolicy, *, admits_all: bool, admits_several_nodes: tuple[bool, bool]
) -> None:
    assert policy.admits_all is admits_all
    assert policy.admits(PREFERRED)
    assert policy.admits(OTHER) is admits_all
    found = (policy.admits_several_nodes(PREFERRED), policy.admits_several_nodes(OTHER))
    assert found == admits_several_nodes


def test_single_numa_node_ignores_hints_for_several_nodes() -> None:
    lists = [[PREFERRED, SINGLE], [OTHER], [ANYWHERE]]
    assert TopologyPolicy.SINGLE_NUMA_NODE.select(lists) == [[SINGLE], [], [ANYWHERE]]
    assert TopologyPolicy.RESTRICTED.select(lists) == lists
