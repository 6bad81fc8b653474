"""The comparison of CPUs over NRI with those of the play without it."""

from nri_numamem.memorymanager import State
from nri_numamem.scenario.outcome import CpusResult, Found, Outcome
from nri_numamem.scenario.steps import Admit
from tests.laboratory.cpus import compare_cpus

FOUND = {"a": CpusResult("0-3"), "b": CpusResult(cause="too few")}


def compared(played: dict[str, str]) -> list[str]:
    return compare_cpus("steps[0]", Outcome(Admit("u"), State({}), found=Found(cpus=FOUND)), played)


def test_equal_cpus_are_no_difference() -> None:
    assert compared({"a": "0-3", "b": ""}) == []


def test_each_difference_is_one_line() -> None:
    assert compared({"b": "4", "c": "5"}) == [
        "steps[0]: over NRI the CPUs of a are unset, else 0-3",
        "steps[0]: over NRI the CPUs of b are 4, else unset",
        "steps[0]: over NRI the CPUs of c are 5, else unset",
    ]
