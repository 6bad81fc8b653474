"""Every feature of the table has an effect on the creations that are measured."""

import pytest

from tests.bench import features


def test_each_feature_is_measured_while_it_has_an_effect() -> None:
    found = features.measure(rounds=1, creations=2)
    assert [*found] == [feature.label for feature in features.FEATURES]
    assert all(spent_s > 0 for each in found.values() for spent_s in each)


def test_a_feature_without_an_effect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = features.Feature("idle", uses=lambda meter: meter.events["rejected"])
    monkeypatch.setattr(features, "FEATURES", (idle,))
    with pytest.raises(RuntimeError, match="idle has no effect on the creation"):
        features.measure(rounds=1, creations=1)


def test_a_network_namespace_that_is_never_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (read,) = (each for each in features.FEATURES if each.wait is features._until_read)
    monkeypatch.setattr(features, "_WAIT_S", 0.01)
    monkeypatch.setattr(features._Helper, "request", lambda _self, _path: {"error": "no"})
    monkeypatch.setattr(features, "FEATURES", (read,))
    with pytest.raises(RuntimeError, match="network namespace of a pod is not read"):
        features.measure(rounds=1, creations=1)


def test_times_are_compared_with_those_of_all_features_off() -> None:
    off, on = features.Times(200e-6, 100e-6, 50e-6), features.Times(220e-6, 103e-6, 100e-6)
    rows = features.rows({features.ALL_OFF.label: off, "x": on})
    ratio = "to all off"
    assert rows == [
        ("feature", "RunPodSandbox", ratio, "CreateContainer", ratio, "after its reply", ratio),
        ("all off", "200 µs", "1.00", "100 µs", "1.00", "50 µs", "1.00"),
        ("x", "220 µs", "1.10", "103 µs", "1.03", "100 µs", "2.00"),
    ]
