"""Scenarios before a real plugin process, which must give what the managers give."""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.main import main
from nri_numamem.cli.simulate_nri import compare_over_nri
from nri_numamem.engine.scenario import Outcome, Scenario, play, scenario_from_document
from nri_numamem.memorymanager import Explanation, NodeSet, Rejection

GI = 1 << 30
Document = dict[str, Any]


def container(name: str, memory: str, hugepages: str | None = None) -> Document:
    limits = {"cpu": 1, "memory": memory}
    if hugepages is not None:
        limits["hugepages-2Mi"] = hugepages
    return {"name": name, "resources": {"limits": limits}}


def pod(uid: str, *containers: Document, init: Sequence[Document] = ()) -> Document:
    return {
        "metadata": {"uid": uid, "name": f"pod-{uid}"},
        "spec": {"initContainers": list(init), "containers": list(containers)},
    }


def removal(uid: str, *names: str) -> list[Document]:
    return [{"remove": {"pod": uid, "container": name}} for name in names]


def document(steps: list[Document], pods: list[Document], **more: Any) -> Document:  # noqa: ANN401
    nodes = [{"id": n, "memory": "8Gi", "hugepages": {"2Mi": 512}} for n in (0, 1, 3)]
    return {"machine": {"nodes": nodes}, "pods": pods, "steps": steps, **more}


def held(memory: object, *nodes: int, hugepages: object = None) -> list[Document]:
    blocks = [{"numaAffinity": list(nodes), "type": "memory", "size": memory}]
    if hugepages is not None:
        blocks.append({**blocks[0], "type": "hugepages-2Mi", "size": hugepages})
    return blocks


def admit(uid: str) -> Document:
    return {"admit": {"pod": uid}}


INIT = [container("i1", "2Gi"), container("i2", "6Gi")]
SIDECAR = {**container("log", "512Mi"), "restartPolicy": "Always"}
PODS = [
    pod("a", container("m", "5Gi", "256Mi"), container("n", "1Gi", "0"), init=[*INIT, SIDECAR]),
    pod("b", container("x", "12Gi", "100Mi")),
    pod("c", container("x", "30Gi")),
    {"metadata": {"uid": "d"}, "spec": {"containers": [{"name": "best-effort"}]}},
]
STEPS = [
    *map(admit, "abcd"),
    *removal("b", "x"),
    *removal("c", "x"),
    admit("c"),
    *removal("a", "m", "n", "i1", "i2", "log", "none"),
    admit("b"),
    admit("b"),
    *removal("nobody", "x"),
    admit("a"),
]
STATE = {
    "entries": {
        "old": {"w": held("3Gi", 0)},
        "b": {"x": held("12Gi", 1, 3, hugepages="100Mi")},
    }
}


@pytest.mark.parametrize(
    "more",
    [
        {"settings": {"topologyManagerPolicy": "restricted"}},
        {"settings": {"topologyManagerPolicy": "single-numa-node"}, "state": STATE},
        {"settings": {"whenUnsatisfiable": "RunUnpinned", "logLevel": "error"}},
        {"settings": {"topologyManagerScope": "pod"}},
        {"settings": {"memoryManagerPolicy": "None"}, "state": STATE},
    ],
    ids=["restricted", "state", "unpinned", "pod", "none"],
)
def test_the_same_over_nri(
    more: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(document(STEPS, PODS, **more)))
    assert main(["simulate", "--over-nri", "--output", "json", str(path)]) == 0
    shown, error = capsys.readouterr()
    assert error == ""
    assert len(json.loads(shown)["steps"]) == len(STEPS)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_random_life_is_the_same_over_nri(scope: str, policy: str, seed: int) -> None:
    settings = {"topologyManagerScope": scope, "topologyManagerPolicy": policy}
    chance = random.Random(seed)
    uids = [f"u{number}" for number in range(30)]
    pods, steps = [], []
    for uid in uids:
        names = [f"c{i}" for i in range(chance.randint(1, 3))]
        made = [
            container(n, f"{chance.randint(1, 60) * 128}Mi", f"{chance.randint(0, 9) * 32}Mi")
            for n in names
        ]
        pods.append(pod(uid, *made[:1], init=made[1:]))
        steps.append(admit(uid))
        if chance.random() < 0.7:
            gone = chance.choice(uids[: len(pods)])
            described = pods[uids.index(gone)]["spec"]
            everyone = described["containers"] + described["initContainers"]
            steps += removal(gone, *(one["name"] for one in everyone))
            steps.append(admit(uid))
    scenario, outcomes = played(document(steps, pods, settings=settings))
    assert compare_over_nri(scenario, outcomes, "s") == []
    assert any(outcome.rejection for outcome in outcomes)


def played(source: Document) -> tuple[Scenario, list[Outcome]]:
    scenario = scenario_from_document(source)
    return scenario, list(play(scenario))


EXTRA = pod("e", container("y", "1Gi"))


def test_differences_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, outcomes = played(document([admit(uid) for uid in "bcec"], [*PODS, EXTRA]))
    refused = outcomes[1].rejection
    assert refused is not None
    books = outcomes[-1].books
    block = books.assignments["b"]["x"][0]
    other = replace(block, numa_affinity=NodeSet([3]))
    changed = {"x": (other, *books.assignments["b"]["x"][1:])}
    assignments = {**books.assignments, "b": changed}
    wrong = [
        replace(outcomes[0], cpuset_mems={"x": None}),
        replace(outcomes[1], rejection=None, cpuset_mems={}),
        replace(outcomes[2], rejection=refused),
        replace(
            outcomes[3],
            rejection=Rejection("OtherReason", partial(Explanation, "text")),
            books=replace(books, assignments=assignments),
        ),
    ]
    found = compare_over_nri(scenario, wrong, "s")
    assert found[0] == "steps[0]: over NRI it is given x 0-1, else x nothing"
    assert found[1].startswith("steps[1]: over NRI it is refused (numamem: container x of pod ")
    assert found[2] == "steps[2]: over NRI it is admitted (y 3), else refused"
    assert found[3].endswith(", else OtherReason")
    size = 12 * GI
    assert found[4:] == [
        f"after the last step: only over NRI b/x holds {size} bytes of memory on nodes 0,1",
        f"after the last step: only without NRI b/x holds {size} bytes of memory on nodes 3",
    ]
    monkeypatch.setattr("nri_numamem.cli.simulate_nri.compare_over_nri", lambda *_: found)
    path = tmp_path / "s.json"
    path.write_text("{}")
    assert main(["simulate", "--over-nri", str(path)]) == 1
    assert capsys.readouterr().err.count(f"nri-numamem: {path}: ") == len(found)


def test_a_plugin_that_fails_is_a_difference() -> None:
    scenario, outcomes = played(document([], []))
    command = (sys.executable, "-c", "import sys; sys.exit('broken')")
    (found,) = compare_over_nri(scenario, outcomes, "s", command)
    assert found.endswith("broken")


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
            {
                "steps": [admit("c"), admit("c")],
                "settings": {"whenUnsatisfiable": "RunUnpinned"},
            },
            "s: steps[1].admit: pod c runs already, partly without nodes",
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
            {"pods": [pod("b", {"name": "x", "resources": {"limits": {"hugepages-3Mi": 0}}})]},
            "s: steps[0].admit: x: 'hugepages-3Mi' does not name a page size",
        ),
        (
            {"state": {"machineState": {"0": {}}, "entries": {"o": {"c": held(1, 9)}}}},
            "s: state.entries.o.c[0]: the machine has no NUMA node 9",
        ),
    ],
)
def test_what_cannot_be_played(change: Document, problem: str) -> None:
    steps = [admit("b")] if "pods" in change else []
    scenario, outcomes = played({**document(steps, PODS), **change})
    with pytest.raises(UsageError) as failed:
        compare_over_nri(scenario, outcomes, "s")
    assert str(failed.value).startswith(problem)
    assert len(str(failed.value).splitlines()) == 1


def test_written_books_that_the_entries_explain_can_be_played() -> None:
    source = document([admit("b")], PODS, state=STATE)
    scenario, outcomes = played(source)
    written = replace(scenario.written, machine_state=scenario.books.machine_state)
    assert compare_over_nri(replace(scenario, written=written), outcomes, "s") == []
