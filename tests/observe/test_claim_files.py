"""Files of the agent and the plugin: a round trip, and files that cannot be used."""

import json
import os
import socket
from pathlib import Path

import pytest

from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import Answer, ClaimFileError, Intent

CLAIM = Claim(
    "uid-1",
    "telco",
    "upf",
    {"mem": {1: {"memory": 4096}}, "pages": {1: {"hugepages-2Mi": 2 << 20}}},
    frozenset({"pod-1", "pod-2"}),
)
INTENT = Intent(CLAIM, "attempt-1")


def test_intents_and_answers_are_the_same_after_a_round_trip(tmp_path: Path) -> None:
    assert claim_files.read_intents(tmp_path) == ((), (), frozenset())
    assert claim_files.read_answers(tmp_path) == {}
    claim_files.write_intent(tmp_path, INTENT)
    claim_files.write_answer(tmp_path, "uid-1", Answer("attempt-1", "no room"))
    assert claim_files.read_intents(tmp_path) == ((INTENT,), (), frozenset({"uid-1"}))
    answer = Answer("attempt-1", "no room")
    assert claim_files.read_answers(tmp_path) == {"uid-1": answer}
    assert claim_files.read_answer(tmp_path, "uid-1") == answer
    for _ in range(2):
        claim_files.remove_intent(tmp_path, "uid-1")
        claim_files.remove_answer(tmp_path, "uid-1")
    assert claim_files.read_intents(tmp_path).found == ()
    assert claim_files.read_answer(tmp_path, "uid-1") is None


def test_files_are_for_root_only(tmp_path: Path) -> None:
    directory = claim_files.directory_of(tmp_path / "lib" / "nri_numamem_state")
    assert directory == tmp_path / "lib" / "claims"
    claim_files.make_directories(directory)
    claim_files.write_intent(directory, INTENT)
    modes = [path.stat().st_mode & 0o777 for path in (directory / "intents",)]
    assert modes == [0o700]
    assert claim_files.intent_file(directory, "uid-1").stat().st_mode & 0o777 == 0o600


def test_an_intent_wakes_the_plugin(tmp_path: Path) -> None:
    claim_files.make_directories(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(claim_files.wake_socket(tmp_path)))
        sock.settimeout(10)
        claim_files.write_intent(tmp_path, INTENT)
        assert sock.recv(10)
        claim_files.remove_intent(tmp_path, "uid-1")
        assert sock.recv(10)


@pytest.mark.parametrize("uid", ["", "../x", "a/b", ".x", "x" * 101, "a b", "ä"])
def test_a_uid_that_is_no_file_name_is_an_error(tmp_path: Path, uid: str) -> None:
    for call in (claim_files.intent_file, claim_files.answer_file):
        with pytest.raises(ValueError, match="is not the uid of a claim"):
            call(tmp_path, uid)


DOCUMENT = {
    "version": 1,
    "uid": "uid-1",
    "namespace": "ns",
    "name": "c",
    "attempt": "a",
    "pods": [],
    "requests": {"mem": "memory@0=4096"},
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "not a document of version 1"),
        ({"uid": "uid-2"}, "uid 'uid-2' is not that of the file name"),
        ({"name": 1}, "name is not a text"),
        ({"pods": "x"}, "pods is not a list of texts"),
        ({"pods": [1]}, "pods is not a list of texts"),
        ({"requests": {}}, "requests is not an object with entries"),
        ({"requests": {"mem": "memory"}}, "requests.mem: 'memory' is not RESOURCE@NODE=BYTES"),
    ],
)
def test_an_intent_that_cannot_be_used_is_a_problem(
    tmp_path: Path, change: dict[str, object], text: str
) -> None:
    claim_files.write_intent(tmp_path, INTENT)
    path = claim_files.intent_file(tmp_path, "uid-1")
    path.write_text(json.dumps({**DOCUMENT, **change}))
    found = claim_files.read_intents(tmp_path)
    assert found == ((), (f"{path}: {text}",), frozenset({"uid-1"}))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b" " * (65 << 10)])
def test_other_bytes_are_a_problem(tmp_path: Path, data: bytes) -> None:
    claim_files.write_intent(tmp_path, INTENT)
    path = claim_files.intent_file(tmp_path, "uid-1")
    path.write_bytes(data)
    (problem,) = claim_files.read_intents(tmp_path).problems
    assert problem.startswith(f"{path}: ")
    assert "\n" not in problem
    claim_files.write_answer(tmp_path, "uid-1", Answer("a"))
    claim_files.answer_file(tmp_path, "uid-1").write_bytes(data)
    assert claim_files.read_answers(tmp_path) == {}
    with pytest.raises(ClaimFileError):
        claim_files.read_answer(tmp_path, "uid-1")


def test_other_files_are_not_read(tmp_path: Path) -> None:
    claim_files.write_intent(tmp_path, INTENT)
    directory = tmp_path / "intents"
    (directory / ".uid-2.json.new").write_text("half")
    (directory / "notes.txt").write_text("")
    (directory / "-.json").write_text("")
    os.mkfifo(directory / "pipe.json")
    found = claim_files.read_intents(tmp_path)
    assert found.found == (INTENT,)
    assert found.problems == (f"{directory}/pipe.json: it is not a regular file",)


def test_an_intent_that_is_removed_meanwhile_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_files.write_intent(tmp_path, INTENT)
    gone = tmp_path / "gone.json"
    monkeypatch.setattr(claim_files, "_files", lambda _directory: iter([gone]))
    assert claim_files.read_intents(tmp_path) == ((), (), frozenset({"gone"}))
