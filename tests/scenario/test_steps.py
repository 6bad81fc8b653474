from typing import Any

import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import (
    Admit,
    Allocate,
    Hints,
    Merge,
    Remove,
    Resize,
    Stop,
    Surroundings,
    read_steps,
)
from nri_numamem.scenario.values import read_pods
from nri_numamem.topologymanager import Topology, TopologyPolicy

TOPOLOGY = Topology(TopologyPolicy.RESTRICTED, Preferences(Distances.of_rows([[10, 30], [30, 10]])))


def around(*uids: str) -> Surroundings:
    manifests = [
        {"metadata": {"uid": uid}, "spec": {"containers": [{"name": "c"}]}} for uid in uids
    ]
    return Surroundings(read_pods(("pods",), manifests), TOPOLOGY, NodeSet([0, 1]))


def test_every_verb() -> None:
    steps = read_steps(
        ("steps",),
        [
            {"admit": {"pod": "a"}},
            {"allocate": {"pod": "a", "container": "c"}},
            {"allocate": {"pod": "a", "container": "c", "hint": {"affinity": [1]}}},
            {"hints": {"pod": "a", "container": "c"}},
            {"remove": {"pod": "x", "container": "y"}},
            {"resize": {"pod": "a", "container": "c", "memory": "2Ki"}},
            {"stop": {"pod": "a", "container": "c"}},
            {"admit": {"pod": "a", "cpus": {"c": "1,0"}, "devices": {"c": [[0], [1, 2]]}}},
        ],
        around("a"),
    )
    assert steps == (
        Admit("a"),
        Allocate("a", "c", Hint(None, preferred=False)),
        Allocate("a", "c", Hint(NodeSet([1]), preferred=False)),
        Hints("a", "c"),
        Remove("x", "y"),
        Resize("a", "c", 2048),
        Stop("a", "c"),
        Admit("a", {"c": "0-1"}, {"c": (NodeSet([0]), NodeSet([1, 2]))}),
    )
    assert read_steps(("steps",), None, around()) == ()


def merge_of(document: dict[str, Any]) -> Merge:
    (step,) = read_steps(("steps",), [{"merge": document}], around())
    assert isinstance(step, Merge)
    return step


def test_omitted_fields_of_a_merge_come_from_machine_and_settings() -> None:
    assert merge_of({}) == Merge(TOPOLOGY, NodeSet([0, 1]), ())


def test_the_hints_of_a_merge() -> None:
    hint = {"affinity": [0], "preferred": True}
    step = merge_of({"providers": [{"cpu": [hint], "memory": None, "gpu": []}, None]})
    assert step.providers == (
        {"cpu": (Hint(NodeSet([0]), preferred=True),), "memory": None, "gpu": ()},
        None,
    )


def test_distances_by_id_or_by_place() -> None:
    by_id = merge_of({"numaNodes": [1, 2], "distances": [[10, 1, 2], [3, 10, 4], [5, 6, 10]]})
    assert by_id.topology.preferences.distances.between(1, 2) == 4
    by_place = merge_of({"numaNodes": [2, 7], "distances": [[10, 12], [13, 10]]})
    assert by_place.topology.preferences.distances.between(7, 2) == 13


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ({}, "steps: a mapping instead of a list"),
        ([5], "steps[0]: 5 instead of a mapping"),
        ([{}], "steps[0]: an empty step; write one of admit, resize, stop, allocate"),
        (
            [{"admit": {"pod": "a"}, "hints": {}}],
            "steps[0]: 2 verbs in one step; write one of admit,",
        ),
        ([{"admit": {}}], "steps[0].admit.pod: missing; write a name"),
        (
            [{"admit": {"pod": "a", "cpus": {"d": "1"}}}],
            "steps[0].admit.cpus.d: unknown key; allowed: c",
        ),
        (
            [{"admit": {"pod": "a", "cpus": {"c": "x"}}}],
            "steps[0].admit.cpus.c: 'x' is no list of CPUs",
        ),
        (
            [{"resize": {"pod": "a", "container": "c"}}],
            "steps[0].resize.memory: missing; write the new limit",
        ),
        ([{"admit": {"pod": 12}}], "steps[0].admit.pod: 12 is not a text; write a name, in quotes"),
        ([{"admit": {"pod": "b"}}], "steps[0].admit.pod: no pod has the uid 'b'; allowed: a"),
        (
            [{"admit": {"pod": "a", "x": 1}}],
            "steps[0].admit.x: unknown key; allowed: pod,",
        ),
        (
            [{"hints": {"pod": "a", "container": "d"}}],
            "steps[0].hints.container: pod 'a' has no container 'd'; allowed: c",
        ),
        (
            [{"allocate": {"pod": "a", "container": "c", "hint": {"preferred": "yes"}}}],
            "steps[0].allocate.hint.preferred: 'yes' is not a boolean; write true or false",
        ),
        (
            [{"allocate": {"pod": "a", "container": "c", "hint": {"affinity": [-1]}}}],
            "steps[0].allocate.hint.affinity[0]: -1 is out of range",
        ),
        (
            [{"merge": {"policy": "best"}}],
            "steps[0].merge.policy: unknown value 'best'; allowed: best-effort",
        ),
        ([{"merge": {"numaNodes": []}}], "steps[0].merge.numaNodes: no NUMA node"),
        (
            [{"merge": {"distances": [[1]]}}],
            "steps[0].merge.distances: 1 rows for the NUMA nodes 0-1; write one row",
        ),
        (
            [{"merge": {"distances": [[1, 2], [1]]}}],
            "steps[0].merge.distances[1]: 1 distances in a matrix of 2 rows",
        ),
        ([{"merge": {"providers": [5]}}], "steps[0].merge.providers[0]: 5 instead of a mapping"),
    ],
)
def test_invalid_steps(steps: object, problem: str) -> None:
    with pytest.raises(SettingsError) as failed:
        read_steps(("steps",), steps, around("a"))
    assert str(failed.value).startswith(problem)


def test_names_of_several_lines_are_shown_in_one() -> None:
    with pytest.raises(SettingsError) as failed:
        read_steps(("steps",), [{"admit": {"pod": "b"}}], around("a\n\nb"))
    assert str(failed.value).endswith("no pod has the uid 'b'; allowed: 'a\\n\\nb'")


def test_suggestions_stay_short() -> None:
    step = [{"admit": {"pod": "uid-x"}}]
    with pytest.raises(SettingsError) as failed:
        read_steps(("steps",), step, around(*(f"uid-{i}" for i in range(20))))
    assert str(failed.value).endswith("no pod has the uid 'uid-x'; did you mean uid-9?")
    with pytest.raises(SettingsError, match="describe it under pods"):
        read_steps(("steps",), step, around())
    with pytest.raises(SettingsError, match="give one of the 20 there"):
        read_steps(
            ("steps",),
            [{"admit": {"pod": "?"}}],
            around(*(f"uid-{i}" for i in range(20))),
        )


def test_a_whole_document_uses_its_own_nodes() -> None:
    machine = {"nodes": [{"id": 4, "memory": "1Gi"}]}
    scenario = scenario_from_document({"machine": machine, "steps": [{"merge": {}}]})
    (step,) = scenario.steps
    assert isinstance(step, Merge)
    assert step.numa_nodes == NodeSet([4])


def test_page_sizes_that_cannot_exist_are_not_admitted() -> None:
    odd = {"name": "c", "resources": {"limits": {"hugepages-3Mi": 0}}}
    pods = read_pods(("pods",), [{"metadata": {"uid": "a"}, "spec": {"containers": [odd]}}])
    known = Surroundings(pods, TOPOLOGY, NodeSet([0]))
    with pytest.raises(SettingsError, match="'hugepages-3Mi' does not name a page size") as failed:
        read_steps(("steps",), [{"admit": {"pod": "a"}}], known)
    assert failed.value.path == ("steps", 0, "admit")
