"""Earmarks in a snapshot: a round trip, and entries that cannot be used."""

import pytest

from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot_earmarks import earmarks_in, earmarks_out
from tests.engine.features.earmarks.earmark_host import EarmarkHost, earmark


def test_a_round_trip() -> None:
    host = EarmarkHost()
    host.place("big", 100)
    host.create(host.run("waits", memory=300 << 20), memory=100 << 20)
    for made in (earmark("e1", "0", 700, to="big"), earmark("e2", "2-3", 500, labels="x")):
        host.make(made)
    known = host.engine.state.earmarks
    found = earmarks_in(earmarks_out(known, host.engine.state.pods))
    assert found == known
    assert found["e1"].held_before == {"big": {"memory": 100 << 20}}
    assert found["e1"].begun_before == {"waits"}


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": "x"},
        {"amounts": {"memory": "1"}},
        {"amounts": {"cpu": 1}},
        {"heldBefore": {"a": {"memory": 0}}},
        {"owners": 7},
        {"begunBefore": 7},
        {"labels": None},
    ],
)
def test_damage_is_an_error(change: dict[str, object]) -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 700, to="big"))
    (entry,) = earmarks_out(host.engine.state.earmarks, {})
    with pytest.raises(SnapshotError):
        earmarks_in([{**entry, **change}])
