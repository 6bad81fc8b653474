"""Which scenarios a runtime could play."""

import pytest

from nri_numamem.config.errors import UsageError
from tests.cli.simulate.scenarios import (
    GI,
    PODS,
    Document,
    admit,
    document,
    held,
    played,
)
from tests.laboratory.playable import check_playable

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
