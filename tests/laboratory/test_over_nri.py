"""Scenarios before a real plugin process, which must give what the managers give."""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.memorymanager import Block, Explanation, Rejection
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.outcome import Found
from tests.cli.simulate.scenarios import (
    GI,
    INIT,
    PODS,
    STATE,
    STEPS,
    Document,
    admit,
    container,
    document,
    played,
    pod,
    removal,
)
from tests.laboratory.over_nri import compare_over_nri, main

pytestmark = pytest.mark.slow


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
    assert main(path) == 0
    assert capsys.readouterr() == ("", "")


def with_annotations(each: Document, annotations: dict[str, str]) -> Document:
    return {**each, "metadata": {**each["metadata"], "annotations": annotations}}


@pytest.mark.parametrize("on_unsupported", ["Ignore", "Reject"])
def test_memory_policies_are_the_same_over_nri(on_unsupported: str) -> None:
    modes = ["interleave", "weighted-interleave", "local"]
    policy = {"modes": modes, "defaults": {"default": "bind"}, "onUnsupported": on_unsupported}
    annotation = "memory-policy.numamem.io"
    annotations = {annotation: "weighted-interleave", f"{annotation}/container.n": "preferred"}
    pods = [
        with_annotations(PODS[0], annotations),
        with_annotations(PODS[1], {annotation: "interleave"}),
        PODS[3],
    ]
    steps = [*map(admit, "abd"), {"retry": {}}]
    scenario, outcomes = played(document(steps, pods, settings={"memoryPolicy": policy}))
    assert compare_over_nri(scenario, outcomes, "s") == []
    found = {
        (c, r.policy) for o in outcomes for c, rs in o.found.memory_policies.items() for r in rs
    }
    assert {("m", "weighted-interleave"), ("x", "interleave"), ("best-effort", "bind")} <= found
    without = [replace(outcome, found=Found()) for outcome in outcomes]
    (line, *_) = compare_over_nri(scenario, without, "s")
    assert line == "steps[0]: over NRI the memory policy of i1 is weighted-interleave 0, else none"


def test_a_half_started_pod_is_the_same_over_nri() -> None:
    """Containers run beside a refused one, which is retried when memory is free again."""
    half = pod("h", container("m", "5Gi"), container("n", "3Gi"), container("o", "512Mi"))
    pods = [*PODS, half, pod("r", container("m", "5Gi"), container("n", "6Gi"))]
    steps = [
        *map(admit, "bhr"),
        {"retry": {}},
        removal("b"),
        {"retry": {"pod": "r"}},
        {"retry": {}},
        removal("h"),
        {"retry": {}},
    ]
    scenario, outcomes = played(document(steps, pods))
    assert compare_over_nri(scenario, outcomes, "s") == []
    documents = [outcome.document for outcome in outcomes]
    assert documents[1]["cpusetMems"] == {"m": "3", "o": "3"}
    assert list(outcomes[1].refused) == ["n"]
    assert documents[2]["ok"] is False
    assert list(outcomes[3].retried or {}) == ["h", "r"]
    assert documents[-1] == {"ok": True, "pods": {}}


def test_differences_of_a_retry_are_reported() -> None:
    pods = [pod("a", container("m", "5Gi")), pod("f", container("x", "20Gi"))]
    steps = [*map(admit, "fa"), removal("f"), {"retry": {}}]
    scenario, outcomes = played(document(steps, pods))
    retried = outcomes[-1].retried
    assert retried is not None
    wrong = replace(retried["a"], cpuset_mems={"m": "3"})
    outcomes[-1] = replace(outcomes[-1], retried={"a": wrong})
    (found,) = compare_over_nri(scenario, outcomes, "s")
    assert found == "steps[3].a: over NRI it is given m 0, else m 3"


def resize(uid: str, name: str, memory: str) -> Document:
    return {"resize": {"pod": uid, "container": name, "memory": memory}}


def stop(uid: str, name: str) -> Document:
    return {"stop": {"pod": uid, "container": name}}


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["best-effort", "single-numa-node"])
def test_resizes_and_restarts_are_the_same_over_nri(scope: str, policy: str) -> None:
    pods = [
        pod("a", container("m", "5Gi", "256Mi"), container("n", "1Gi"), init=INIT),
        pod("b", container("x", "2Gi")),
    ]
    steps = [
        resize("a", "m", "6Gi"),
        stop("a", "m"),
        *map(admit, "ab"),
        resize("a", "m", "3Gi"),
        resize("b", "x", "9Gi"),
        resize("b", "x", "90Gi"),
        stop("a", "m"),
        resize("a", "m", "1Gi"),
        stop("b", "x"),
        *map(admit, "ba"),
        removal("b"),
        admit("b"),
    ]
    settings = {"topologyManagerScope": scope, "topologyManagerPolicy": policy}
    scenario, outcomes = played(document(steps, pods, settings=settings))
    assert compare_over_nri(scenario, outcomes, "s") == []
    assert any(outcome.rejection for outcome in outcomes)


EXTRA = pod("e", container("y", "1Gi"))


def test_differences_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, outcomes = played(document([admit(uid) for uid in "bcec"], [*PODS, EXTRA]))
    refused = outcomes[1].rejection
    assert refused is not None
    accounting = outcomes[-1].accounting
    block = accounting.assignments["b"]["x"][0]
    other = replace(block, numa_affinity=NodeSet([3]))
    changed: dict[HolderName, tuple[Block, ...]] = {
        "x": (other, *accounting.assignments["b"]["x"][1:])
    }
    assignments = {**accounting.assignments, "b": changed}
    wrong = [
        replace(outcomes[0], cpuset_mems={"x": None}),
        replace(outcomes[1], rejection=None, cpuset_mems={}),
        replace(outcomes[2], rejection=refused),
        replace(
            outcomes[3],
            rejection=Rejection("OtherReason", partial(Explanation, "text")),
            accounting=replace(accounting, assignments=assignments),
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
    monkeypatch.setattr("tests.laboratory.over_nri.compare_over_nri", lambda *_: found)
    path = tmp_path / "s.json"
    path.write_text("{}")
    assert main(path) == 1
    assert capsys.readouterr().out.count(f"{path}: ") == len(found)


def test_a_file_that_cannot_be_played_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"steps": 3}')
    assert main(path) == 2
    assert capsys.readouterr().err.startswith(f"{path}:1: steps: ")


def test_a_plugin_that_fails_is_a_difference() -> None:
    scenario, outcomes = played(document([], []))
    command = (sys.executable, "-c", "import sys; sys.exit('broken')")
    (found,) = compare_over_nri(scenario, outcomes, "s", command)
    assert found.endswith("broken")


def test_written_books_that_the_entries_explain_can_be_played() -> None:
    source = document([admit("b")], PODS, state=STATE)
    scenario, outcomes = played(source)
    written = replace(scenario.written, machine_state=scenario.accounting.machine_state)
    assert compare_over_nri(replace(scenario, written=written), outcomes, "s") == []


def test_cpus_and_strategies_are_the_same_over_nri() -> None:
    def with_cpus(uid: str, cpus: int, memory: str = "2Gi") -> Document:
        made = pod(uid, container("m", memory))
        made["spec"]["containers"][0]["resources"]["limits"]["cpu"] = cpus
        return made

    nodes = [{"id": n, "memory": "8Gi", "cpus": f"{4 * n}-{4 * n + 3}"} for n in (0, 1)]
    steps = [*map(admit, "abc"), resize("a", "m", "9Gi")]
    settings = {"placementStrategy": "balanced-with-cpus", "cpuFollowsMemory": "prefer"}
    pods = [with_cpus("a", 3), with_cpus("b", 2), with_cpus("c", 3, "5Gi")]
    made = document(steps, pods, settings=settings, machine={"nodes": nodes})
    scenario, outcomes = played(made)
    assert compare_over_nri(scenario, outcomes, "s") == []
    assert {o.found.cpus["m"].cpus for o in outcomes[:3]} == {"", "0-3", "4-7"}
    without = [replace(outcome, found=Found()) for outcome in outcomes]
    (line, *_) = compare_over_nri(scenario, without, "s")
    assert line == "steps[0]: over NRI the CPUs of m are 0-3, else unset"
