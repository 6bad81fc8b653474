"""Files of commands and the plugin about earmarks: a round trip, and files that cannot be used."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import NodeSet
from nri_numamem.observe import earmark_files
from nri_numamem.observe.earmark_files import EarmarkAnswer, EarmarkFileError, Wanted
from nri_numamem.observe.files import replace_file
from tests.observe.collected import WAIT_S
from tests.observe.test_wake import woken

FOR_POD = Earmark(
    "e-1",
    Room(NodeSet([0, 1]), {"memory": 4096, "hugepages-2Mi": 2 << 20}),
    Beneficiary("ml", "uid-1", "train-4"),
    1_700_000_000,
)
FOR_LABELS = replace(FOR_POD, uid="e-2", beneficiary=Beneficiary("ml", labels={"app": "train"}))


def test_earmarks_and_answers_are_the_same_after_a_round_trip(tmp_path: Path) -> None:
    assert earmark_files.read_wanted(tmp_path) == Wanted()
    assert earmark_files.read_answers(tmp_path) == {}
    earmark_files.write_wanted(tmp_path, FOR_LABELS)
    earmark_files.write_wanted(tmp_path, FOR_POD)
    found = earmark_files.read_wanted(tmp_path)
    assert found == Wanted((FOR_POD, FOR_LABELS), (), frozenset({"e-1", "e-2"}))
    answers = {"e-1": EarmarkAnswer(7, "no room"), "e-2": EarmarkAnswer(8)}
    earmark_files.write_answers(tmp_path, answers)
    assert earmark_files.read_answers(tmp_path) == answers
    assert earmark_files.remove_wanted(tmp_path, "e-1")
    assert not earmark_files.remove_wanted(tmp_path, "e-1")
    assert earmark_files.read_wanted(tmp_path).earmarks == (FOR_LABELS,)


def test_files_are_for_root_only_and_wake_the_plugin(tmp_path: Path) -> None:
    directory = earmark_files.directory_of(tmp_path / "lib" / "nri_numamem_state")
    assert directory == tmp_path / "lib" / "earmarks"
    with woken(earmark_files.answers_file(directory)) as plugin:
        earmark_files.write_wanted(directory, FOR_POD)
        assert plugin.acquire(timeout=WAIT_S)
        file = earmark_files.file_of(directory, "e-1")
        assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]
        earmark_files.remove_wanted(directory, "e-1")
        assert plugin.acquire(timeout=WAIT_S)


@pytest.mark.parametrize("uid", ["", "../x", "a/b", ".x", "x" * 64, "a b", "ä", "A"])
def test_other_texts_are_no_uids(uid: str) -> None:
    assert not earmark_files.is_uid(uid)


def _document(**changes: object) -> bytes:
    document = {
        "version": 1,
        "nodes": "0-1",
        "amounts": {"memory": 4096},
        "namespace": "ml",
        "podUid": "uid-1",
        "pod": "train-4",
        "labels": {},
        "expires": 5,
    }
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a document of version 1"),
        (_document(version=2), "not a document of version 1"),
        (_document(nodes="x"), "nodes: 'x' is not a list of NUMA nodes such as 0-1,3"),
        (_document(nodes=""), "nodes and amounts must not be empty"),
        (_document(amounts={}), "nodes and amounts must not be empty"),
        (_document(amounts={"cpu": 1}), "amounts are bytes"),
        (_document(amounts={"memory": 0}), "amounts are bytes"),
        (_document(amounts={"memory": True}), "memory is not a whole number"),
        (_document(amounts=7), "amounts is not an object"),
        (_document(labels={"a": "b"}), "either podUid or labels"),
        (_document(podUid=""), "either podUid or labels"),
        (_document(namespace=""), "it needs namespace"),
        (_document(pod=7), "pod is not a text"),
        (_document(expires="soon"), "expires is not a whole number"),
        (b" " * (65 << 10), "more than 65536 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_the_others_count(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    earmark_files.write_wanted(tmp_path, FOR_LABELS)
    replace_file(earmark_files.file_of(tmp_path, "bad"), data)
    found = earmark_files.read_wanted(tmp_path)
    assert found.earmarks == (FOR_LABELS,)
    assert found.uids == {"bad", "e-2"}
    (text,) = found.problems
    assert text.startswith(f"{earmark_files.file_of(tmp_path, 'bad')}: ")
    assert problem in text


def _of_another_name(directory: Path) -> None:
    replace_file(earmark_files.file_of(directory, "A b"), _document())


def _directory(directory: Path) -> None:
    earmark_files.file_of(directory, "e-9").mkdir(parents=True)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [(_of_another_name, "not the uid of an earmark"), (_directory, "Is a directory")],
)
def test_other_files_are_problems(
    tmp_path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    damage(tmp_path)
    found = earmark_files.read_wanted(tmp_path)
    assert not found.earmarks
    assert problem in found.problems[0]


def test_there_is_a_limit_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earmark_files, "MOST", 1)
    for each in (FOR_POD, FOR_LABELS):
        earmark_files.write_wanted(tmp_path, each)
    found = earmark_files.read_wanted(tmp_path)
    assert found.earmarks == (FOR_POD,)
    assert found.problems == (f"{tmp_path / 'wanted'}: more than 1 earmarks",)


@pytest.mark.parametrize(
    "document",
    [b"{}", b'{"version":1}', b'{"version":1,"earmarks":{"a":1}}', b"x", b" " * (5 << 20)],
)
def test_answers_that_cannot_be_used_are_an_error(tmp_path: Path, document: bytes) -> None:
    file = earmark_files.answers_file(tmp_path)
    replace_file(file, document)
    with pytest.raises(EarmarkFileError, match=r"answers/earmarks\.json: "):
        earmark_files.read_answers(tmp_path)
