"""The setting burstablePods: its values, and its errors."""

import pytest

from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.memorymanager.burstable import BurstablePods, Evidence

RANGE = "write a whole number from -996 to 999"
ALL = "memory-reservation, annotation, limits"


def read(value: object) -> BurstablePods:
    return settings_from_mapping({"burstablePods": value}).burstable_pods


def written(value: BurstablePods) -> object:
    return settings_to_mapping(Settings(burstable_pods=value)).get("burstablePods")


def test_it_is_off_by_default() -> None:
    assert read(None) == read({}) == BurstablePods()
    keys = ("evidence", "namespaces", "oomScoreAdj", "requireFreeMemory")
    assert read(dict.fromkeys(keys)) == BurstablePods()
    assert written(BurstablePods()) == {"requireFreeMemory": True}


def test_all_keys() -> None:
    found = read(
        {
            "evidence": ["limits", "annotation", "limits"],
            "namespaces": ["db", "lab", "db"],
            "oomScoreAdj": -996,
            "requireFreeMemory": False,
        }
    )
    evidence = (Evidence.ANNOTATION, Evidence.LIMITS)
    assert found == BurstablePods(evidence, ("db", "lab"), -996, require_free_memory=False)
    assert read(written(found)) == found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "burstablePods: a list instead of a mapping; write KEY: VALUE"),
        (
            {"evidences": []},
            (
                "burstablePods.evidences: unknown key; did you mean evidence? allowed: evidence, "
                "namespaces, oomScoreAdj, requireFreeMemory"
            ),
        ),
        (
            {"evidence": "limits"},
            f"burstablePods.evidence: 'limits' instead of a list; write a list of {ALL}",
        ),
        ({"evidence": [None]}, f"burstablePods.evidence[0]: no evidence; write one of: {ALL}"),
        (
            {"evidence": ["limit"]},
            (
                "burstablePods.evidence[0]: unknown value 'limit'; did you mean limits? "
                f"allowed: {ALL}"
            ),
        ),
        (
            {"evidence": ["limits"]},
            (
                "burstablePods.namespaces: limits in evidence is a statement about listed "
                "namespaces; list the namespaces"
            ),
        ),
        (
            {"oomScoreAdj": -997},
            f"burstablePods.oomScoreAdj: -997 is out of range; {RANGE}",
        ),
        (
            {"oomScoreAdj": True},
            f"burstablePods.oomScoreAdj: True is out of range; {RANGE}",
        ),
        (
            {"requireFreeMemory": 7},
            'burstablePods.requireFreeMemory: 7 is not a boolean; write "true" or "false"',
        ),
    ],
)
def test_an_error_names_place_and_remedy(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert str(caught.value) == text
