"""Settings of placement: their values, and their errors."""

import pytest

from nri_numamem.config.features import HINTS_ALL, HINTS_OFF, HINTS_SECONDARY
from nri_numamem.config.load import load_text
from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.numa import PodStrategies, Strategy

ALL = "lowest-ids, pack, spread, balanced-with-cpus"


def read(value: object) -> PodStrategies:
    return settings_from_mapping({"podPlacementStrategies": value}).pod_strategies


def written(value: PodStrategies) -> object:
    return settings_to_mapping(Settings(pod_strategies=value)).get("podPlacementStrategies")


def test_annotations_choose_nothing_by_default() -> None:
    nothing = dict.fromkeys(("allowed", "namespaces"))
    assert read(None) == read(nothing) == PodStrategies()
    assert written(PodStrategies()) is None


def test_all_keys() -> None:
    found = read({"allowed": ["spread", "pack", "pack"], "namespaces": ["shop"]})
    assert found == PodStrategies((Strategy.PACK, Strategy.SPREAD), ("shop",))
    assert read(written(found)) == found


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
            (f"podPlacementStrategies.allowed[0]: no strategy; write one of: {ALL}"),
        ),
        (
            {"namespaces": [""]},
            "podPlacementStrategies.namespaces[0]: '' is not a namespace; write a namespace",
        ),
    ],
)
def test_errors(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert str(caught.value) == text


@pytest.mark.parametrize("word", [HINTS_OFF, HINTS_SECONDARY, HINTS_ALL])
def test_words_of_network_hints_need_no_quotes(word: str) -> None:
    for text in (word, f'"{word}"'):
        assert load_text(f"networkHints: {text}\n", "x").network_hints == word


def test_network_hints_are_off_by_default() -> None:
    assert load_text("networkHints:\n", "x").network_hints == HINTS_OFF
    assert settings_from_mapping(None).network_hints == HINTS_OFF


@pytest.mark.parametrize("value", [True, 0, "primary", ["all"]])
def test_other_network_hints_are_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^networkHints: unknown value .*secondary"):
        settings_from_mapping({"networkHints": value})
