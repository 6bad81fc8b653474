"""The recorded answers of the static CPU manager belong to the lives, and keep its rules."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.numa import CpuSet, NodeSet
from tests.kubelet_managers.answers import Answer
from tests.kubelet_managers.cpu_lives import (
    LIVES,
    SHAPES,
    CpuLife,
    Request,
    Step,
    random_life,
    reserved_cpus,
)
from tests.kubelet_managers.static_cpus import (
    RECORDED,
    Assigned,
    Assignments,
    StaleRecordingError,
    of_kubelet,
    recorded,
)

Lives = list[tuple[CpuLife, Assignments]]


@pytest.fixture(scope="module")
def lives() -> Lives:
    return recorded()


def test_every_exclusive_cpu_is_given_once(lives: Lives) -> None:
    """As many CPUs as requested, none of them reserved or of another running pod."""
    assert len(lives) == LIVES * len(SHAPES)
    for life, answers in lives:
        reserved, running = reserved_cpus(life.machine), dict[str, CpuSet]()
        for step in life.steps:
            running.pop(step.ends, None)
            answer = answers.get(step.starts.name)
            if isinstance(answer, Assigned):
                assert answer.is_exclusive
                assert len(answer.cpus) == step.starts.cpus
                assert answer.nodes
                for taken in (reserved, *running.values()):
                    assert not answer.cpus & taken
                running[step.starts.name] = answer.cpus


def test_pods_are_refused_only_for_memory(lives: Lives) -> None:
    reasons = {each for _, answers in lives for each in answers.values() if isinstance(each, str)}
    assert reasons == {"UnexpectedAdmissionError"}


def changed(path: Path, number: int, change: Callable[[Any], None]) -> Path:
    """Write the recording with a changed line."""
    with lzma.open(RECORDED, "rt") as text:
        lines = [json.loads(line) for line in text]
    change(lines[number])
    written = "".join(f"{json.dumps(line)}\n" for line in lines)
    path.write_bytes(lzma.compress(written.encode(), preset=0))
    return path


def test_a_falsified_answer_is_refused(tmp_path: Path) -> None:
    def falsify(line: list[Any]) -> None:
        line[1]["pod-0"][2] = [1]

    with pytest.raises(StaleRecordingError, match="life 4 is another one"):
        recorded(changed(tmp_path / "falsified.xz", 5, falsify))


def test_another_version_is_refused(tmp_path: Path) -> None:
    def older(head: dict[str, str]) -> None:
        head["kubernetes"] = "v1.0.0"

    with pytest.raises(StaleRecordingError, match=r"not the version of go\.mod"):
        recorded(changed(tmp_path / "older.xz", 0, older))


def test_other_lives_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests.kubelet_managers.static_cpus.all_lives"
    others = [random_life(seed + 1, shape) for shape in SHAPES for seed in range(LIVES)]
    monkeypatch.setattr(name, lambda: others)
    with pytest.raises(StaleRecordingError, match="life 0 is another one"):
        recorded()
    monkeypatch.setattr(name, lambda: others[1:])
    with pytest.raises(StaleRecordingError, match=f"{len(others)} lives, not {len(others) - 1}"):
        recorded()


def test_the_answers_of_the_program() -> None:
    requests = [Request(f"pod-{number}", 2, 1 << 30) for number in range(3)]
    steps = (Step("", requests[0]), Step("pod-0", requests[1]), Step("", requests[2]))
    life = CpuLife(2, steps)
    blocks = {"pod-0": {"c": [[[0, 1], "memory", 1024]]}}
    answers: list[Answer] = [
        {},
        {"cpus": {"c": ["2-3", True]}, "blocks": blocks},
        {},
        {"reason": "UnexpectedAdmissionError"},
        {"reason": "no room"},
    ]
    assert of_kubelet(life, answers) == {
        "pod-0": ["2-3", True, [0, 1]],
        "pod-1": "UnexpectedAdmissionError",
    }
    with pytest.raises(RuntimeError, match="the kubelet does not start"):
        of_kubelet(life, [{"reason": "not started"}])


def test_nodes_of_a_life() -> None:
    nodes = CpuLife(2, ()).as_json()["nodes"]
    assert [node["cores"][0] for node in nodes] == [[0, 1], [18, 19]]
    assert nodes[1]["distances"] == [12, 10]
    assert NodeSet(node["id"] for node in nodes) == NodeSet({0, 1})
