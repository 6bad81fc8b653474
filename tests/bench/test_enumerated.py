import json
from pathlib import Path

import pytest

from tests.bench import enumerated, placement
from tests.bench.enumerated import HALF_FULL, WITHOUT_PAGES


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a program that keeps its task and answers with one node for each question."""
    program = tmp_path / "admissions"
    answer = json.dumps({"took_ns": [100, 200], "nodes": ["0", "1"]})
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/task\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(enumerated, "QUESTIONS", 2)
    monkeypatch.setattr(enumerated, "PODS", 20)
    return tmp_path


def test_both_are_asked_the_same(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "request_of", lambda *_: {"memory": placement.GI})
    found = enumerated.compare(go, 4, HALF_FULL, WITHOUT_PAGES)
    task = json.loads((go / "task").read_text())
    assert task["questions"] == [{"memory": placement.GI}] * 2
    assert len(task["machine"]) == 4
    assert len(task["books"]) > 10
    assert found.enumeration is not None
    assert found.enumeration.p50_s == 1e-7
    assert found.ours.count == 2
    assert found.ratios[0] > 1


def test_answers_of_other_widths_are_an_error(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "request_of", lambda *_: {"memory": 200 * placement.GI})
    with pytest.raises(RuntimeError, match="different numbers of nodes"):
        enumerated.compare(go, 4, enumerated.EMPTY, WITHOUT_PAGES)


def test_what_never_ends_is_not_asked(go: Path) -> None:
    found = enumerated.compare(go, 16, enumerated.EMPTY, enumerated.WITH_PAGES)
    assert found.enumeration is None
    assert not (go / "task").exists()
