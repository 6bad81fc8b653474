"""The setting podPlacementStrategies: its values, and its errors."""

import pytest

from nri_numamem.config.pod_strategies import pod_strategies_document, read_pod_strategies
from nri_numamem.config.values import SettingsError
from nri_numamem.numa import PodStrategies, Strategy

ALL = "lowest-ids, pack, spread, balanced-with-cpus"


def test_annotations_choose_nothing_by_default() -> None:
    nothing = dict.fromkeys(("allowed", "namespaces"))
    assert read_pod_strategies(None) == read_pod_strategies(nothing) == PodStrategies()
    assert pod_strategies_document(PodStrategies()) == {}


def test_all_keys() -> None:
    found = read_pod_strategies({"allowed": ["spread", "pack", "pack"], "namespaces": ["shop"]})
    assert found == PodStrategies((Strategy.PACK, Strategy.SPREAD), ("shop",))
    assert read_pod_strategies(pod_strategies_document(found)) == found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "podPlacementStrategies: a list instead of a mapping; write KEY: VALUE"),
        (
            {"allowed": ["Pack"]},
            (
                "podPlacementStrategies.allowed[0]: unknown value 'Pack'; did you mean pack? "
                f"allowed: {ALL}"
            ),
        ),
        (
            {"allowed": [None]},
            (f"podPlacementStrategies.allowed[0]: no strategy; write a list of strategies: {ALL}"),
        ),
        (
            {"namespaces": [""]},
            "podPlacementStrategies.namespaces[0]: '' is not a namespace; write a namespace",
        ),
    ],
)
def test_errors(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_pod_strategies(value)
    assert str(caught.value) == text
