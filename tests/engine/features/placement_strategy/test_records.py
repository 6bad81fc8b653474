"""Records of placement strategies."""

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.features.placement_strategy.records import (
    ANNOTATION,
    ignored,
    with_strategy,
)
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet, Strategy


def test_an_annotation_that_does_not_count() -> None:
    pod = PodSandbox("s", "u", "shop", "web", "/kubepods/podu")
    record = ignored(pod, "x", "because", is_off=False)
    assert (record.level, ignored(pod, "x", "", is_off=True).level) == ("warning", "debug")
    assert record.event is EventName.PLACEMENT_STRATEGY_IGNORED
    assert record.fields == {
        "pod": "web",
        "namespace": "shop",
        "pod_uid": "u",
        "strategy": "x",
        "cause": "because",
    }


def test_the_strategy_of_a_placement() -> None:
    placed = Record(EventName.ADMITTED, {"nodes": "1"})
    equal = (NodeSet([0]), NodeSet([2, 3]))
    assert with_strategy(placed, Strategy.PACK, ANNOTATION, equal).fields == {
        "nodes": "1",
        "strategy": "pack",
        "strategy_source": "annotation",
        "equal_nodes": ["0", "2-3"],
    }
    assert "equal_nodes" not in with_strategy(placed, Strategy.PACK, ANNOTATION, ()).fields
