"""Requests of commands about earmarks: the wait for an answer, and what stays without one."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.live import earmark_requests
from nri_numamem.config.errors import UsageError
from nri_numamem.observe import earmark_files
from nri_numamem.observe.earmark_files import EarmarkAnswer
from tests.engine.features.earmarks.earmark_host import earmark

MADE = earmark("e1", "0", 300, to="big")


def _answer(directory: Path, refusal: str = "", expires_s: int = MADE.expires_s) -> None:
    answer = {"e1": EarmarkAnswer(expires_s, refusal)}
    threading.Timer(0.1, lambda: earmark_files.write_answers(directory, answer)).start()


def test_the_answer_to_this_time_counts(tmp_path: Path) -> None:
    earmark_files.write_answers(tmp_path, {"e1": EarmarkAnswer(1, "of an earlier one")})
    _answer(tmp_path)
    assert earmark_requests.set_aside(tmp_path, MADE) == ""
    assert earmark_files.read_wanted(tmp_path).earmarks == (MADE,)


def test_after_a_refusal_the_files_are_as_before(tmp_path: Path) -> None:
    _answer(tmp_path, "no room")
    assert earmark_requests.set_aside(tmp_path, MADE) == "no room"
    assert not earmark_files.read_wanted(tmp_path).uids
    earmark_files.write_wanted(tmp_path, MADE)
    other = replace(MADE, expires_s=2000)
    _answer(tmp_path, "no room", 2000)
    assert earmark_requests.set_aside(tmp_path, other) == "no room"
    assert earmark_files.read_wanted(tmp_path).earmarks == (MADE,)


def test_without_an_answer_the_files_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earmark_requests, "ANSWER_S", 0.1)
    with pytest.raises(UsageError, match="did not answer within"):
        earmark_requests.set_aside(tmp_path, MADE)
    assert not earmark_files.read_wanted(tmp_path).uids


def test_an_end_waits_until_the_plugin_knows_it(tmp_path: Path) -> None:
    earmark_files.write_wanted(tmp_path, MADE)
    earmark_files.write_answers(tmp_path, {"e1": EarmarkAnswer(1000)})
    threading.Timer(0.1, lambda: earmark_files.write_answers(tmp_path, {})).start()
    earmark_requests.end(tmp_path, ["e1", "unknown"])
    assert not earmark_files.read_wanted(tmp_path).uids
    assert earmark_files.read_answers(tmp_path) == {}
