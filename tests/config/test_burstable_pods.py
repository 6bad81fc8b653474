"""The setting burstablePods: its values, and its errors."""

import pytest

from nri_numamem.config.burstable_pods import burstable_pods_document, read_burstable_pods
from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager.burstable import BurstablePods, Evidence

RANGE = "write a whole number from -996 to 999"
ALL = "memory-reservation, annotation, limits"


def test_it_is_off_by_default() -> None:
    assert read_burstable_pods(None) == read_burstable_pods({}) == BurstablePods()
    keys = ("evidence", "namespaces", "oomScoreAdj", "requireFreeMemory")
    assert read_burstable_pods(dict.fromkeys(keys)) == BurstablePods()
    assert burstable_pods_document(BurstablePods()) == {"requireFreeMemory": True}


def test_all_keys() -> None:
    found = read_burstable_pods(
        {
            "evidence": ["limits", "annotation", "limits"],
            "namespaces": ["db", "lab", "db"],
            "oomScoreAdj": -996,
            "requireFreeMemory": False,
        }
    )
    evidence = (Evidence.ANNOTATION, Evidence.LIMITS)
    assert found == BurstablePods(evidence, ("db", "lab"), -996, require_free_memory=False)
    assert read_burstable_pods(burstable_pods_document(found)) == found


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
        ({"evidence": [None]}, f"burstablePods.evidence[0]: no evidence; write a list of {ALL}"),
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
        read_burstable_pods(value)
    assert str(caught.value) == text
