"""Earmarks that commands make: a thread with files, and a job with the engine."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.daemon.earmarks import EarmarkExchange
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.observe import earmark_files
from nri_numamem.observe.earmark_files import EarmarkAnswer
from nri_numamem.observe.files import replace_file
from nri_numamem.observe.wake import wake
from tests.engine.features.earmarks.earmark_host import EarmarkHost, earmark
from tests.observe.collected import WAIT_S, Collected
from tests.simulated_host import wait_for

MADE = earmark("e1", "0", 300, to="big", expires=2000)


class Plugin:
    """The exchange with an engine; the job runs when the thread wakes this one up."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "earmarks"
        self.engine: Engine = EarmarkHost().engine
        self.collected = Collected()
        self.now_s = 1000.0
        self.may_decide = True
        self.woken = threading.Semaphore(0)
        self.records: list[str] = []
        self.exchange = EarmarkExchange(
            self.directory,
            self.collected,
            lambda: self.now_s,
            lambda: self.may_decide,
            self.woken.release,
        )
        self.exchange.start()

    def write(self, made: Earmark) -> None:
        earmark_files.write_wanted(self.directory, made)
        self.turn()

    def turn(self) -> None:
        """Wait for the thread, then run the job."""
        assert self.woken.acquire(timeout=WAIT_S)
        self.run()

    def run(self) -> None:
        assert self.exchange.due(self.engine, 0.0)
        self.records += [each.event for each in self.exchange.run(self.engine, 0.0)]

    def wait_answers(self, **answers: EarmarkAnswer) -> None:
        read = earmark_files.read_answers
        wait_for(lambda: read(self.directory) == answers, "the answers")


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    found = Plugin(tmp_path)
    found.turn()  # without files
    yield found
    found.exchange.close()


def test_an_earmark_is_made_renewed_and_dropped(plugin: Plugin) -> None:
    plugin.write(MADE)
    plugin.wait_answers(e1=EarmarkAnswer(2000))
    plugin.write(replace(MADE, expires_s=3000))
    plugin.wait_answers(e1=EarmarkAnswer(3000))
    assert plugin.engine.state.earmarks["e1"].expires_s == 3000
    earmark_files.remove_wanted(plugin.directory, "e1")
    plugin.turn()
    plugin.wait_answers()
    assert plugin.engine.state.earmarks == {}
    assert plugin.records == ["earmark_made", "earmark_renewed", "earmark_ended"]


def test_a_refusal_is_decided_once(plugin: Plugin) -> None:
    plugin.write(earmark("e2", "0", 2000, to="x", expires=2000))
    refused = EarmarkAnswer(2000, "memory 1.96Gi is more than 928Mi on node 0")
    plugin.wait_answers(e2=refused)
    plugin.write(MADE)
    plugin.wait_answers(e1=EarmarkAnswer(2000), e2=refused)
    assert plugin.records == ["earmark_rejected", "earmark_made"]


def test_time_ends_an_earmark_without_a_command_and_its_file_goes(plugin: Plugin) -> None:
    plugin.write(MADE)
    plugin.wait_answers(e1=EarmarkAnswer(2000))
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.now_s = 2000.0
    plugin.run()
    assert plugin.records == ["earmark_made", "earmark_ended"]
    earmark_files.write_wanted(plugin.directory, replace(MADE, uid="e3", expires_s=9000))
    plugin.turn()
    plugin.wait_answers(e3=EarmarkAnswer(9000))
    wait_for(
        lambda: not earmark_files.file_of(plugin.directory, "e1").exists(), "the end of the file"
    )
    assert plugin.engine.state.earmarks.keys() == {"e3"}


def test_nothing_is_decided_without_the_lock_or_the_runtime(plugin: Plugin) -> None:
    plugin.may_decide = False
    earmark_files.write_wanted(plugin.directory, MADE)
    assert plugin.woken.acquire(timeout=WAIT_S)
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.may_decide = True
    plugin.run()
    assert plugin.records == ["earmark_made"]


def test_a_file_that_cannot_be_used_is_reported_once_and_ends_nothing(plugin: Plugin) -> None:
    plugin.write(MADE)
    plugin.wait_answers(e1=EarmarkAnswer(2000))
    replace_file(earmark_files.file_of(plugin.directory, "e1"), b"{")
    for _ in range(2):
        wake(earmark_files.answers_file(plugin.directory))
    plugin.turn()
    record = plugin.collected.wait_for("earmark_files_unusable")
    assert "e1.json: not JSON" in str(fields_of(record)["cause"])
    assert plugin.engine.state.earmarks.keys() == {"e1"}
    assert plugin.collected.events == ["earmark_files_unusable"]


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "earmarks").write_text("")
    plugin = Plugin(tmp_path)
    record = plugin.collected.wait_for("earmark_files_unusable")
    assert fields_of(record)["cause"] == f"{tmp_path / 'earmarks'}: Not a directory"
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.exchange.close()
