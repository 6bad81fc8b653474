"""Labels and texts of decisions."""

import pytest

from nri_numamem.cli.explain.decision import facts_of, nodes_text
from nri_numamem.numa import NodeSet
from tests.cli.explain.stories import recorded


def test_a_resize_names_the_nodes_before() -> None:
    fields = {"previous_nodes": "0", "nodes": "0-1", "request_bytes": {"memory": 1 << 30}}
    assert list(facts_of(recorded(1, "resized", "", fields))) == [
        ("request", "1Gi memory"),
        ("before", "node 0"),
        ("nodes", "0-1"),
    ]


def test_a_hugepage_limit_that_the_plugin_set() -> None:
    limit = {"cpuset_mems": "1", "hugepage_limits_bytes": {"hugepages-1Gi": 2 << 30}}
    facts = dict(facts_of(recorded(1, "admitted", "", {"nodes": "1", "adjustment": limit})))
    assert facts["nodes"] == "1; hugepage limit 2Gi hugepages-1Gi"
    assert facts["merged"] == "any nodes, not preferred"


@pytest.mark.parametrize(("nodes", "text"), [([2], "node 2"), ([0, 1], "nodes 0-1")])
def test_nodes(nodes: list[int], text: str) -> None:
    assert nodes_text(NodeSet(nodes)) == text
