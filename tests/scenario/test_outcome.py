"""The documents of results."""

from functools import partial

from nri_numamem.memorymanager import Explanation, Rejection, State
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.steps import Admit, Remove

EMPTY = State({})
ADMIT = Admit("u")
REJECTION = Rejection("Reason", partial(Explanation, "text"))
ERROR = {"reason": "Reason", "message": "text", "nodes": [], "remedies": []}


def test_a_step_without_results() -> None:
    assert Outcome(Remove("u"), EMPTY).document == {"ok": True}


def test_nodes() -> None:
    outcome = Outcome(ADMIT, EMPTY, cpuset_mems={"a": "0-1", "b": None})
    assert outcome.document == {"ok": True, "cpusetMems": {"a": "0-1", "b": None}}


def test_a_rejection_has_the_nodes_of_the_containers_before() -> None:
    outcome = Outcome(ADMIT, EMPTY, rejection=REJECTION, cpuset_mems={"a": "0"})
    assert outcome.document == {"ok": False, "error": ERROR, "cpusetMems": {"a": "0"}}
    outcome = Outcome(ADMIT, EMPTY, rejection=REJECTION, cpuset_mems={})
    assert outcome.document == {"ok": False, "error": ERROR}
