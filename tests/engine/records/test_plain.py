"""Dictionaries of records."""

from nri_numamem.engine.records.common import Hints, RemedyShown
from nri_numamem.engine.records.files import LogReopened
from nri_numamem.engine.records.plain import fields_of, plain
from nri_numamem.engine.records.record import Level
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import NodeSet
from tests.engine.records.examples import example


def test_fields_with_their_defaults_are_left_out() -> None:
    assert fields_of(LogReopened()) == {}
    record = example("resize_rejected", {"repeat_count": 0, "request_bytes": {"memory": 5}})
    assert fields_of(record)["repeat_count"] == 0
    assert "adjustment" not in fields_of(record)


def test_values_as_json_has_them() -> None:
    assert plain(Level.DEBUG) == "debug"
    assert plain({1: NodeSet([0, 1])}) == {"1": "0-1"}
    assert plain((Hint(None, preferred=True),)) == [{"affinity": None, "preferred": True}]
    assert plain(Hints()) == {}
    assert plain(RemedyShown(kind="k", text="t")) == {"kind": "k", "text": "t"}
