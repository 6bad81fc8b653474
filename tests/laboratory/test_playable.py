"""Which scenarios a runtime could play."""

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.scenario.steps import Admit, Remove, Step
from tests.cli.simulate.scenarios import (
    GI,
    PODS,
    Document,
    admit,
    document,
    held,
    played,
    removal,
)
from tests.laboratory.playable import check_playable, last_removals

ODD_SIZE = {"nodes": [{"id": 0, "memory": 4 * GI + 1}]}
FREE = {"total": "8Gi", "allocatable": "7Gi", "free": "7Gi"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"machine": None, "state": {"machineState": {}}}, "s: machine: missing"),
        (
            {"state": {"entries": {"x/../../../etc": {"c": held("1Gi", 0)}}}},
            "s: pods: the pod uid x/../../../etc cannot name a cgroup; use letters",
        ),
        ({"machine": ODD_SIZE}, "s: machine: 4294967297 bytes are not a multiple of 1024"),
        ({"steps": [{"hints": {"pod": "b", "container": "x"}}]}, "s: steps[0]: a single call"),
        ({"steps": [{"merge": {}}]}, "s: steps[0]: a single call of the managers"),
        (
            {"steps": [admit("a"), *removal("a", "m", "n")]},
            "s: steps[1].remove: pod a keeps i1, i2, log, ",
        ),
        (
            {"state": {"entries": {"a": {"m": held("1Gi", 0)}}}, "steps": [admit("a")]},
            "s: steps[0].admit: only some containers of pod a run already",
        ),
        (
            {"steps": [{"admit": {"pod": "b", "cpus": {"x": "1"}}}]},
            "s: steps[0].admit: the fake runtime's host has no CPUs and devices to allocate",
        ),
        (
            {"state": {"machineState": {"0": {"memoryMap": {"memory": FREE}}}}},
            "s: state.machineState: not what the entries make of the machine",
        ),
        (
            {"state": {"entries": {"o": {"c": held(0, 0)}}}},
            "s: state.entries.o.c: no running container has these blocks",
        ),
        (
            {"state": {"entries": {"o": {"c": held("1Gi", 0) + held("1Gi", 1)}}}},
            "s: state.entries.o.c: no running container has these blocks",
        ),
        (
            {"state": {"entries": {"o": {"c": []}}}},
            "s: state.entries.o.c: no running container has these blocks",
        ),
        (
            {
                "state": {
                    "machineState": {"0": {}},
                    "entries": {"o": {"c": [{**held(1, 0)[0], "type": "hugepages-3Mi"}]}},
                }
            },
            "s: state.entries.o.c: 'hugepages-3Mi' does not name a page size",
        ),
        (
            {"state": {"machineState": {"0": {}}, "entries": {"o": {"c": held(1, 9)}}}},
            "s: state.entries.o.c[0]: the machine has no NUMA node 9",
        ),
    ],
)
def test_scenarios_that_cannot_be_played(change: Document, problem: str) -> None:
    scenario, outcomes = played({**document([], PODS), **change})
    with pytest.raises(UsageError) as failed:
        check_playable(scenario, outcomes, "s")
    assert str(failed.value).startswith(problem)
    assert len(str(failed.value).splitlines()) == 1


def test_a_playable_scenario_has_its_machine() -> None:
    scenario, outcomes = played(document([admit("b")], PODS))
    assert check_playable(scenario, outcomes, "s") == scenario.machine


def test_removals_in_a_row_end_with_the_last_one() -> None:
    steps: list[Step] = [
        Remove("a", "x"),
        Remove("a", "y"),
        Remove("b", "x"),
        Admit("a"),
        Remove("a", "x"),
    ]
    assert last_removals(steps) == {1: "a", 2: "b", 4: "a"}
