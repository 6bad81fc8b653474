"""Intents of the agent: shared writes, an earlier process, and answers."""

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from nri_numamem.exporter import claim_store
from nri_numamem.exporter.claim_store import ClaimStore
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import Answer, Intent
from nri_numamem.observe.files import replace_file
from nri_numamem.observe.wake import wake
from tests.simulated_host import wait_for

CLAIM = Claim("uid-1", "ns", "app", {"mem": {0: {"memory": 4096}}})


def claim(number: int) -> Claim:
    return Claim(f"uid-{number}", "ns", f"app-{number}", {"mem": {0: {"memory": 4096}}})


def test_calls_at_the_same_time_share_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, writes = threading.Event(), list[int]()

    def write(directory: Path, intents: Iterable[Intent]) -> None:
        found = tuple(intents)
        writes.append(len(found))
        assert goes_on.wait(30)
        claim_files.write_intents(directory, found)

    monkeypatch.setattr(claim_store, "write_intents", write)
    with ClaimStore(tmp_path) as store:
        threads = [threading.Thread(target=store.begin, args=(claim(n),)) for n in range(20)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(store.intents()) == 20)
        goes_on.set()
        for thread in threads:
            thread.join()
        assert len(writes) <= 3
        assert claim_files.read_intents(tmp_path).uids == {f"uid-{n}" for n in range(20)}
        store.remove("uid-3")
        assert len(writes) <= 4
        store.remove("uid-3")
        assert len(claim_files.read_intents(tmp_path).uids) == 19


def test_a_restarted_agent_has_its_intents_and_the_answers(tmp_path: Path) -> None:
    with ClaimStore(tmp_path) as store:
        attempt = store.begin(CLAIM)
        assert not store.is_charged(CLAIM)
        claim_files.write_answers(tmp_path, {"uid-1": Answer(attempt)})
        assert store.wait("uid-1", attempt, float("inf")) == Answer(attempt)
        assert store.is_charged(CLAIM)
    with ClaimStore(tmp_path) as store:
        assert store.dropped == ()
        assert store.is_charged(CLAIM)
        assert not store.is_charged(claim(2))
        store.remove("uid-1")
    assert claim_files.read_intents(tmp_path).found == ()


def test_intents_that_cannot_be_used_are_dropped(tmp_path: Path) -> None:
    file = claim_files.intents_file(tmp_path)
    replace_file(file, b"{")
    with ClaimStore(tmp_path) as store:
        (problem,) = store.dropped
        assert problem.startswith(f"{file}: not JSON")
        store.begin(CLAIM)
    assert claim_files.read_intents(tmp_path).uids == {"uid-1"}


def test_without_an_answer_a_wait_ends(tmp_path: Path) -> None:
    with ClaimStore(tmp_path) as store:
        assert store.wait("uid-1", "try-1", 0.0) is None
        assert not store.is_closing
        store.stop()
        assert store.wait("uid-1", "try-1", float("inf")) is None
        assert store.is_closing


def test_answers_that_cannot_be_read_leave_the_former_ones(tmp_path: Path) -> None:
    with ClaimStore(tmp_path) as store:
        attempt = store.begin(CLAIM)
        claim_files.write_answers(tmp_path, {"uid-1": Answer(attempt)})
        assert store.wait("uid-1", attempt, float("inf"))
        file = claim_files.answers_file(tmp_path)
        file.unlink()
        file.mkdir()
        wake(claim_files.intents_file(tmp_path))
        wait_for(lambda: store.problem == f"{tmp_path}: Is a directory")
        assert store.is_charged(CLAIM)
