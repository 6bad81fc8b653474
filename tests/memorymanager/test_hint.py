from nri_numamem.memorymanager import Hint, HintMap
from nri_numamem.numa import NodeSet


def test_a_hint_is_a_value() -> None:
    hint = Hint(NodeSet([0, 1]), preferred=True)
    assert hint == Hint(NodeSet.parse("0-1"), preferred=True)
    assert hint != Hint(NodeSet([0, 1]), preferred=False)
    assert len({hint, Hint(NodeSet([0, 1]), preferred=True)}) == 1


def test_any_nodes_differ_from_no_nodes() -> None:
    assert Hint(None, preferred=True) != Hint(NodeSet(), preferred=True)


def test_a_hint_map_has_hints_per_resource() -> None:
    hints: HintMap = {"memory": (Hint(NodeSet([1]), preferred=True),), "hugepages-2Mi": ()}
    assert not hints["hugepages-2Mi"], "the request fits nowhere"
    assert [str(hint.affinity) for hint in hints["memory"]] == ["1"]
