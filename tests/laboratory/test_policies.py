"""The comparison of memory policies over NRI with those of the play without it."""

from nri_numamem.config.settings import Settings
from nri_numamem.memorymanager import State
from nri_numamem.numa import MemoryPolicies, PolicyMode
from nri_numamem.scenario.outcome import Found, Outcome, PolicyResult
from nri_numamem.scenario.steps import Admit
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.policies import HANDLER, compare_policies, with_known_runtime

SET = PolicyResult("bind", "annotation", "0-1")
IGNORED = PolicyResult("x", "annotation", cause="it is none of them")
BIND = api.LinuxMemoryPolicy(mode=api.MPOL_BIND, nodes="0-1")


def compared(
    results: dict[str, tuple[PolicyResult, ...]], policy: api.LinuxMemoryPolicy | None
) -> list[str]:
    outcome = Outcome(Admit("u"), State({}), found=Found(memory_policies=results))
    return compare_policies("steps[0]", outcome, {} if policy is None else {"c": policy})


def test_equal_policies_are_no_difference() -> None:
    assert compared({"c": (IGNORED, SET)}, BIND) == []
    assert compared({"c": (IGNORED,)}, None) == []
    even = PolicyResult("interleave:2", "annotation", "0-1")
    pair = api.LinuxMemoryPolicy(mode=api.MPOL_INTERLEAVE, nodes="0-1")
    assert compared({"c": (even,)}, pair) == []


def test_each_difference_is_one_line() -> None:
    place = "steps[0]: over NRI the memory policy of c is"
    assert compared({"c": (SET,)}, None) == [f"{place} none, else bind 0-1"]
    assert compared({}, BIND) == [f"{place} bind 0-1, else none"]
    other = api.LinuxMemoryPolicy(mode=api.MPOL_PREFERRED_MANY, nodes="1")
    assert compared({"c": (SET,)}, other) == [f"{place} preferred-many 1, else bind 0-1"]


def test_the_handler_of_the_fake_runtime_sets_policies() -> None:
    policies = MemoryPolicies((PolicyMode.BIND,))
    found = with_known_runtime(Settings(memory_policies=policies)).memory_policies
    assert found.runtimes == (HANDLER,) == (objects.pod("p").runtime_handler,)
    assert with_known_runtime(Settings()) == Settings()
