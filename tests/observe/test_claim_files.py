"""Files of the agent and the plugin: a round trip, and files that cannot be used."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import Answer, ClaimFileError, Intent, Intents
from nri_numamem.observe.files import replace_file
from tests.observe.collected import WAIT_S
from tests.observe.test_wake import woken

CLAIM = Claim(
    "uid-1",
    "telco",
    "upf",
    {"mem": {1: {"memory": 4096}}, "pages": {1: {"hugepages-2Mi": 2 << 20}}},
    frozenset({"pod-1", "pod-2"}),
)
INTENT = Intent(CLAIM, "attempt-1")


def test_intents_and_answers_are_the_same_after_a_round_trip(tmp_path: Path) -> None:
    assert claim_files.read_intents(tmp_path) == Intents()
    assert claim_files.read_answers(tmp_path) == {}
    other = Intent(replace(CLAIM, uid="uid-0", pods=frozenset()), "attempt-2")
    claim_files.write_intents(tmp_path, [INTENT, other])
    answers = {"uid-1": Answer("attempt-1", "no room"), "uid-0": Answer("attempt-2")}
    claim_files.write_answers(tmp_path, answers)
    found = claim_files.read_intents(tmp_path)
    assert found == ((other, INTENT), (), frozenset({"uid-0", "uid-1"}))
    assert claim_files.read_answers(tmp_path) == answers
    claim_files.write_intents(tmp_path, [])
    assert claim_files.read_intents(tmp_path) == Intents()


def test_files_are_for_root_only(tmp_path: Path) -> None:
    directory = claim_files.directory_of(tmp_path / "lib" / "nri_numamem_state")
    assert directory == tmp_path / "lib" / "claims"
    claim_files.write_intents(directory, [INTENT])
    file = claim_files.intents_file(directory)
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]


def test_each_side_wakes_the_other(tmp_path: Path) -> None:
    intents, answers = claim_files.intents_file(tmp_path), claim_files.answers_file(tmp_path)
    claim_files.write_intents(tmp_path, [INTENT])  # no process waits yet
    for _ in range(2):  # the socket of a process that was killed is replaced
        with woken(answers) as plugin, woken(intents) as agent:
            claim_files.write_intents(tmp_path, [INTENT])
            assert plugin.acquire(timeout=WAIT_S)
            claim_files.write_answers(tmp_path, {})
            assert agent.acquire(timeout=WAIT_S)


@pytest.mark.parametrize("uid", ["", "../x", "a/b", ".x", "x" * 101, "a b", "ä"])
def test_other_texts_are_no_uids(uid: str) -> None:
    assert not claim_files.is_uid(uid)


ENTRY = {
    "namespace": "ns",
    "name": "c",
    "attempt": "a",
    "pods": [],
    "requests": {"mem": "memory@0=4096"},
}


@pytest.mark.parametrize(
    ("uid", "entry", "text"),
    [
        ("../x", ENTRY, "not the uid of a claim"),
        ("uid-2", [], "not an object"),
        ("uid-2", {**ENTRY, "name": 1}, "name is not a text"),
        ("uid-2", {**ENTRY, "pods": "x"}, "pods is not a list of texts"),
        ("uid-2", {**ENTRY, "pods": [1]}, "pods is not a list of texts"),
        ("uid-2", {**ENTRY, "requests": {}}, "requests is not an object with entries"),
        (
            "uid-2",
            {**ENTRY, "requests": {"mem": "memory"}},
            "requests.mem: 'memory' is not RESOURCE@NODE=BYTES",
        ),
    ],
)
def test_an_intent_that_cannot_be_used_is_a_problem(
    tmp_path: Path, uid: str, entry: object, text: str
) -> None:
    path = claim_files.intents_file(tmp_path)
    claims = {"uid-1": ENTRY, uid: entry}
    replace_file(path, json.dumps({"version": 1, "claims": claims}).encode())
    found = claim_files.read_intents(tmp_path)
    assert [each.claim.uid for each in found.found] == ["uid-1"]
    assert found.problems == (f"{path}: {uid!r}: {text}",)
    assert found.uids == {"uid-1", uid}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[]", "not a document of version 1"),
        (b'{"version": 2}', "not a document of version 1"),
        (b'{"version": 1}', "claims is not an object"),
        (b'{"version": 1, "claims": []}', "claims is not an object"),
        (b" " * ((8 << 20) + 1), "more than 8388608 bytes"),
    ],
)
def test_other_bytes_are_an_error(tmp_path: Path, data: bytes, text: str) -> None:
    files = claim_files.intents_file(tmp_path), claim_files.answers_file(tmp_path)
    calls: list[Callable[[Path], object]] = [claim_files.read_intents, claim_files.read_answers]
    for path, call in zip(files, calls, strict=True):
        replace_file(path, data)
        with pytest.raises(ClaimFileError) as error:
            call(tmp_path)
        assert str(error.value).startswith(f"{path}: {text}")
        assert "\n" not in str(error.value)
