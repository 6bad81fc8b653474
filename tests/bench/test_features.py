"""Every feature of the table has an effect on the creations that are measured."""

import pytest

from nri_numamem.engine.records.events import EventName
from tests.bench import features


def test_each_feature_is_measured_while_it_has_an_effect() -> None:
    found = features.measure(rounds=1, creations=2)
    assert [*found] == [feature.label for feature in features.FEATURES]
    assert all(each.before_s > 0 < each.after_s for each in found.values())


def test_a_feature_without_an_effect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = features.Feature("idle", uses=lambda meter: meter.events[EventName.REJECTED])
    monkeypatch.setattr(features, "FEATURES", (idle,))
    with pytest.raises(RuntimeError, match="idle has no effect on the creation"):
        features.measure(rounds=1, creations=1)


def test_times_are_compared_with_those_of_all_features_off() -> None:
    off, on = features.Times(100e-6, 50e-6), features.Times(103e-6, 100e-6)
    rows = features.rows({features.ALL_OFF.label: off, "x": on})
    assert rows[1:] == [
        ("all off", "100 µs", "1.00", "50 µs", "1.00"),
        ("x", "103 µs", "1.03", "100 µs", "2.00"),
    ]
