from dataclasses import replace

import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.steps import (
    Admit,
    Remove,
    Resize,
    Retry,
    Stop,
    Surroundings,
    read_steps,
)
from nri_numamem.scenario.values import read_pods


def around(*uids: str) -> Surroundings:
    manifests = [
        {"metadata": {"uid": uid}, "spec": {"containers": [{"name": "c"}]}} for uid in uids
    ]
    return Surroundings(read_pods(("pods",), manifests))


def test_every_verb() -> None:
    steps = read_steps(
        ("steps",),
        [
            {"admit": {"pod": "a"}},
            {"remove": {"pod": "x"}},
            {"remove": {"pod": "a"}},
            {"resize": {"pod": "a", "container": "c", "memory": "2Ki"}},
            {"stop": {"pod": "a", "container": "c"}},
            {"retry": {}},
            {"retry": {"pod": "a"}},
            {"admit": {"pod": "a", "cpus": {"c": "1,0"}, "devices": {"c": [[0], [1, 2]]}}},
        ],
        replace(around("a"), written={"x": {"y": ()}}),
    )
    assert steps == (
        Admit("a"),
        Remove("x"),
        Remove("a"),
        Resize("a", "c", 2048),
        Stop("a", "c"),
        Retry(),
        Retry("a"),
        Admit("a", {"c": "0-1"}, {"c": (NodeSet([0]), NodeSet([1, 2]))}),
    )
    assert read_steps(("steps",), None, around()) == ()


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ({}, "steps: a mapping instead of a list"),
        ([5], "steps[0]: 5 instead of a mapping"),
        ([{}], "steps[0]: an empty step; write one of admit, retry, resize, stop, remove"),
        (
            [{"admit": {"pod": "a"}, "stop": {}}],
            "steps[0]: 2 verbs in one step; write one of admit,",
        ),
        ([{"admit": {}}], "steps[0].admit.pod: missing; write a name"),
        (
            [{"remove": {"pod": "x"}}],
            "steps[0].remove.pod: no pod has the uid 'x'; allowed: a",
        ),
        (
            [{"remove": {"pod": "a", "container": "c"}}],
            "steps[0].remove.container: unknown key; allowed: pod",
        ),
        (
            [{"admit": {"pod": "a", "cpus": {"d": "1"}}}],
            "steps[0].admit.cpus.d: unknown key; allowed: c",
        ),
        (
            [{"admit": {"pod": "a", "cpus": {"c": "x"}}}],
            "steps[0].admit.cpus.c: 'x' is not a list of CPUs",
        ),
        (
            [{"resize": {"pod": "a", "container": "c"}}],
            "steps[0].resize.memory: missing; write the new limit",
        ),
        ([{"admit": {"pod": 12}}], "steps[0].admit.pod: 12 is not a text; write a name, in quotes"),
        ([{"retry": {"pod": "b"}}], "steps[0].retry.pod: no pod has the uid 'b'; allowed: a"),
        ([{"admit": {"pod": "b"}}], "steps[0].admit.pod: no pod has the uid 'b'; allowed: a"),
        (
            [{"admit": {"pod": "a", "x": 1}}],
            "steps[0].admit.x: unknown key; allowed: pod,",
        ),
        (
            [{"stop": {"pod": "a", "container": "d"}}],
            "steps[0].stop.container: pod 'a' has no container 'd'; allowed: c",
        ),
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


def test_page_sizes_that_cannot_exist_are_not_admitted() -> None:
    odd = {"name": "c", "resources": {"limits": {"hugepages-3Mi": 0}}}
    pods = read_pods(("pods",), [{"metadata": {"uid": "a"}, "spec": {"containers": [odd]}}])
    known = Surroundings(pods)
    with pytest.raises(SettingsError, match="'hugepages-3Mi' does not name a page size") as failed:
        read_steps(("steps",), [{"admit": {"pod": "a"}}], known)
    assert failed.value.path == ("steps", 0, "admit")
