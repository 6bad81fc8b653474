"""A scenario document: what is read, and what is wrong where."""

import pytest

from nri_numamem.memorymanager import NodeState, Table
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.scenario import ScenarioError, scenario_from_document
from nri_numamem.scenario.state import WrittenState
from tests.scenario.documents import GI, outcomes, pod, scenario


def test_accounting_of_another_file_replaces_the_state() -> None:
    node = NodeState(0, {"memory": Table(GI, 0, GI, 0, GI)}, NodeSet([5]))
    document = {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]}
    (got,) = outcomes(document, WrittenState({5: node}))
    assert got.document["cpusetMems"] == {"c0": "5"}
    with pytest.raises(ScenarioError, match="state: the state is given twice"):
        scenario_from_document({**document, "state": {}}, WrittenState({5: node}))


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        (None, (), "scenario: None instead of a mapping"),
        ({"machines": 1}, ("machines",), "machines: unknown key; did you mean machine?"),
        ({"settings": []}, ("settings",), "settings: a list instead of a mapping"),
        (
            {"settings": {"topologyManagerScope": "x"}},
            ("settings", "topologyManagerScope"),
            "settings.topologyManagerScope: unknown value 'x'",
        ),
        (
            {"settings": {"kubeletConfigFile": "/etc/kubelet.yaml"}},
            ("settings", "kubeletConfigFile"),
            "settings.kubeletConfigFile: a scenario reads no other file; write that file's keys",
        ),
        (
            scenario(settings={"reservedMemory": [{"numaNode": 7, "limits": {"memory": 1}}]}),
            ("settings",),
            "settings.reservedMemory[0]: the reserved memory configuration references",
        ),
        (
            {"pods": [pod("a")], "steps": [{"admit": {"pod": "a"}}]},
            ("machine",),
            "machine: missing; describe its nodes",
        ),
    ],
)
def test_documents_that_cannot_be_played(
    document: object, path: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ScenarioError) as failed:
        scenario_from_document(document)
    assert str(failed.value).startswith(problem)
    assert failed.value.path == path
    assert len(str(failed.value).splitlines()) == 1
