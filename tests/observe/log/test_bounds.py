from nri_numamem.observe.log.bounds import bounded
from tests.engine.records.examples import example


def test_short_values_stay() -> None:
    record = {"event": "x", "n": 1, "none": None, "list": [1, "a"], "map": {"a": {"b": True}}}
    assert bounded(record) == record
    assert list(bounded(record)) == list(record)


def test_texts_are_cut_wherever_they_are() -> None:
    long, shown = "x" * 2000, "x" * 1024 + "... (2000 characters)"
    record = {"a": long, "b": [long], "c": {long: {"d": (long,)}}}
    assert bounded(record) == {"a": shown, "b": [shown], "c": {shown: {"d": [shown]}}}


def test_a_traceback_keeps_its_end() -> None:
    found = bounded({"event": "x", "exception": "a" * 100_000 + "end"})
    assert len(str(found["exception"])) == 16 * 1024
    assert str(found["exception"]).endswith("aend")
    assert bounded({"exception": None}) == {}


def test_values_without_end_are_left_to_the_renderer() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert list(bounded({"event": "x", "value": endless})) == ["event", "value"]
    other = object()
    assert bounded({"value": other}) == {"value": other}


def test_a_typed_record_is_replaced_by_its_fields() -> None:
    record = example("not_registered", {"cause": "x", "exception": "trace", "remedy": "y"})
    found = bounded({"event": "not_registered", "request_id": "1-2", "record": record})
    assert list(found) == ["event", "request_id", "cause", "remedy", "exception"]
