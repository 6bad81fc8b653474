"""Records of earmarks name the room and for whom it is."""

from nri_numamem.engine.features.earmarks import records
from nri_numamem.engine.records.plain import fields_of
from tests.engine.features.earmarks.earmark_host import earmark


def test_the_end_of_an_earmark_shows_what_was_not_used() -> None:
    names = records.names_of(earmark("e1", "2-3", 8, labels="train"))
    found = records.EarmarkEnded(names=names, cause="it was dropped", left_bytes={"memory": 4})
    assert fields_of(found) == {
        "earmark": "e1",
        "beneficiary": "ns (app=train)",
        "nodes": "2-3",
        "set_aside_bytes": {"memory": 8 << 20},
        "cause": "it was dropped",
        "left_bytes": {"memory": 4},
    }
