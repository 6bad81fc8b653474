import json
from pathlib import Path

import pytest

from tests.bench import enumeration, placement
from tests.bench.enumeration import HALF_FULL, WITHOUT_PAGES


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a program that stores its input and returns one node per request."""
    program = tmp_path / "admissions"
    answer = json.dumps({"took_ns": [100, 200], "nodes": ["0", "1"]})
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/task\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(enumeration, "REQUESTS", 2)
    monkeypatch.setattr(enumeration, "PODS", 20)
    return tmp_path


def test_both_place_the_same_requests(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "request_of", lambda *_: {"memory": placement.GI})
    found = enumeration.compare(go, 4, HALF_FULL, WITHOUT_PAGES)
    task = json.loads((go / "task").read_text())
    assert task["requests"] == [{"memory": placement.GI}] * 2
    assert len(task["machine"]) == 4
    assert len(task["assignments"]) > 10
    assert found.enumeration is not None
    assert found.enumeration.p50_s == 1e-7
    assert found.ours.count == 2
    assert found.ratios[0] > 1


def test_a_different_number_of_nodes_is_an_error(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "request_of", lambda *_: {"memory": 200 * placement.GI})
    with pytest.raises(RuntimeError, match="different numbers of nodes"):
        enumeration.compare(go, 4, enumeration.EMPTY, WITHOUT_PAGES)


def test_too_large_machines_are_not_enumerated(go: Path) -> None:
    found = enumeration.compare(go, 16, enumeration.EMPTY, enumeration.WITH_PAGES)
    assert found.enumeration is None
    assert not (go / "task").exists()
