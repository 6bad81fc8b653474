"""The exchange of claims with the agent: a thread with files, and a job with the engine."""

import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.config.claims import ClaimSettings
from nri_numamem.config.settings import Settings
from nri_numamem.daemon import file_exchange
from nri_numamem.daemon.claims import ClaimExchange
from nri_numamem.engine.core.events import Synchronize
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.observe import cdi, claim_files
from nri_numamem.observe.claim_files import Answer, ClaimFileError, Intent
from nri_numamem.observe.files import replace_file
from nri_numamem.observe.threads import NO_THREAD, no_thread_error
from nri_numamem.observe.wake import wake
from tests.engine.features.claims.claim_host import ClaimHost, claim_of, memory_claim
from tests.observe.collected import WAIT_S, Collected
from tests.simulated_host import wait_for

PROGRAM = "/opt/bin/claim-hook"
CLAIM = memory_claim("uid-1", 1, 300, "pod-1")


class Plugin:
    """The exchange with an engine; the job runs when the thread wakes this one up."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(
            state_file=str(root / "lib" / "nri_numamem_state"),
            claims=ClaimSettings(
                enabled=True, hook_program=PROGRAM, cdi_directory=str(root / "cdi")
            ),
        )
        self.directory = claim_files.directory_of(Path(self.settings.state_file or ""))
        self.specifications = root / "cdi"
        self.engine: Engine = ClaimHost().engine
        self.collected = Collected()
        self.may_decide = True
        self.woken = threading.Semaphore(0)
        self.records: list[str] = []
        self.intents: dict[str, Intent] = {}
        self.exchange = self.started()

    def started(self) -> ClaimExchange:
        exchange = ClaimExchange(
            self.settings,
            self.collected,
            lambda: 1000.0,
            lambda: self.may_decide,
            self.woken.release,
        )
        exchange.start()
        return exchange

    def restart(self) -> None:
        """Begin with an empty engine; what the runtime has is synchronized by the test."""
        self.exchange.close()
        self.engine = ClaimHost().engine
        self.exchange = self.started()

    def write(self, intent: Intent) -> None:
        self.intents[intent.claim.uid] = intent
        claim_files.write_intents(self.directory, self.intents.values())

    def remove(self, uid: str) -> None:
        del self.intents[uid]
        claim_files.write_intents(self.directory, self.intents.values())

    def turn(self) -> None:
        """Wait for the thread, then run the job."""
        assert self.woken.acquire(timeout=WAIT_S)
        assert self.exchange.due(self.engine, 0.0)
        self.records += [each.event for each in self.exchange.run(self.engine, 0.0)]

    def answer(self, uid: str = "uid-1") -> Answer:
        wait_for(lambda: uid in claim_files.read_answers(self.directory), "an answer")
        return claim_files.read_answers(self.directory)[uid]

    def wait_answer(self, answer: Answer, uid: str = "uid-1") -> None:
        wait_for(lambda: self.answers().get(uid) == answer, "the answer")

    def answers(self) -> Mapping[str, Answer]:
        try:
            return claim_files.read_answers(self.directory)
        except ClaimFileError:  # of a test
            return {}


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    found = Plugin(tmp_path)
    found.turn()  # without intents
    yield found
    found.exchange.close()


def test_an_intent_is_charged_specified_and_answered(plugin: Plugin) -> None:
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    assert plugin.records == ["claim_prepared"]
    plugin.wait_answer(Answer("try-1"))
    (file,) = plugin.specifications.iterdir()
    assert json.loads(file.read_text()) == cdi.specification(CLAIM, PROGRAM)
    assert plugin.engine.state.claims.keys() == {"uid-1"}
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.remove("uid-1")
    plugin.turn()
    assert plugin.records[1:] == ["claim_released"]
    wait_for(lambda: not list(plugin.specifications.iterdir()), "the removal")
    wait_for(lambda: not plugin.answers(), "the removal")


def test_a_refusal_is_the_answer_and_only_another_attempt_is_decided_again(plugin: Plugin) -> None:
    large = memory_claim("uid-1", 1, 3000)
    plugin.write(Intent(large, "try-1"))
    plugin.turn()
    answer = plugin.answer()
    assert answer.attempt == "try-1"
    assert "NUMA node 1 has memory 928Mi free of 2.93Gi requested" in answer.refusal
    assert not plugin.specifications.exists()
    plugin.write(Intent(memory_claim("uid-2", 0, 10), "try-1"))
    plugin.turn()
    assert plugin.records == ["claim_rejected", "claim_prepared"]
    plugin.write(Intent(large, "try-2"))
    plugin.turn()
    assert plugin.records[2:] == ["claim_rejected"]
    plugin.wait_answer(replace(answer, attempt="try-2"))


def test_a_further_attempt_of_a_charged_claim_is_answered(plugin: Plugin) -> None:
    for attempt in ("try-1", "try-2"):
        plugin.write(Intent(CLAIM, attempt))
        plugin.turn()
        plugin.wait_answer(Answer(attempt))
    assert plugin.records == ["claim_prepared"]


def test_nothing_is_decided_before_it_may_be(plugin: Plugin) -> None:
    plugin.may_decide = False
    plugin.write(Intent(CLAIM, "try-1"))
    assert plugin.woken.acquire(timeout=WAIT_S)
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.may_decide = True
    assert plugin.exchange.due(plugin.engine, 0.0)
    assert [each.event for each in plugin.exchange.run(plugin.engine, 0.0)] == ["claim_prepared"]
    assert list(plugin.exchange.run(plugin.engine, 0.0)) == []


def test_a_restarted_plugin_charges_what_it_had_answered(plugin: Plugin) -> None:
    refused = claim_of("uid-2", mem={0: {"memory": 3000}})
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.write(Intent(refused, "try-1"))
    plugin.turn()
    plugin.answer("uid-2")
    plugin.wait_answer(Answer("try-1"))
    shutil.rmtree(plugin.specifications)  # a reboot
    plugin.records.clear()
    plugin.restart()
    assert plugin.exchange.prepared() == (CLAIM,)
    plugin.engine.apply(Synchronize((), (), claims=plugin.exchange.prepared()))
    plugin.turn()
    assert plugin.records == []
    wait_for(plugin.specifications.is_dir, "the specification")
    assert plugin.engine.state.claims.keys() == {"uid-1"}


def test_an_answered_claim_that_the_engine_lost_is_charged_again(plugin: Plugin) -> None:
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))
    plugin.restart()
    plugin.turn()
    assert plugin.records == ["claim_prepared"] * 2


def damaged(plugin: Plugin, uid: str) -> bytes:
    """Return the intents, of which one cannot be used."""
    document = json.loads(claim_files.intents_file(plugin.directory).read_bytes())
    document["claims"][uid]["requests"] = {}
    return json.dumps(document).encode()


def test_an_intent_that_cannot_be_used_is_reported_once_and_releases_nothing(
    plugin: Plugin,
) -> None:
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))
    plugin.write(Intent(memory_claim("uid-2", 0, 10), "try-1"))
    plugin.turn()
    replace_file(claim_files.intents_file(plugin.directory), damaged(plugin, "uid-1"))
    for _ in range(2):
        wake(claim_files.answers_file(plugin.directory))
    plugin.turn()
    assert plugin.engine.state.claims.keys() == {"uid-1", "uid-2"}
    assert plugin.collected.events == ["claim_intent_unusable"]
    cause = str(fields_of(plugin.collected.records[0])["cause"])
    assert cause.endswith("'uid-1': requests is not an object with entries")


@pytest.mark.parametrize("damage", ["a directory", "no JSON"])
def test_intents_that_cannot_be_read_are_reported_and_release_nothing(
    plugin: Plugin, damage: str
) -> None:
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))
    file = claim_files.intents_file(plugin.directory)
    if damage == "a directory":
        file.unlink()
        file.mkdir()
        error = "Is a directory"
    else:
        replace_file(file, b"{")
        error = f"{file}: not JSON: Expecting property name enclosed in double quotes: line 1 "
    wake(claim_files.answers_file(plugin.directory))
    fields = fields_of(plugin.collected.wait_for("claim_files_unreadable"))
    assert fields["path"] == str(plugin.directory)
    assert str(fields["error"]).startswith(error)
    assert plugin.exchange.prepared() is None
    assert plugin.engine.state.claims.keys() == {"uid-1"}


def test_answers_of_an_earlier_process_that_cannot_be_read_are_replaced(plugin: Plugin) -> None:
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))
    replace_file(claim_files.answers_file(plugin.directory), b"{")
    plugin.restart()
    plugin.collected.wait_for("claim_files_unreadable")
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))


def test_a_claim_without_its_specification_is_not_answered_with_others(plugin: Plugin) -> None:
    plugin.specifications.write_text("not a directory")
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.collected.wait_for("claim_unanswered")
    plugin.specifications.unlink()
    plugin.write(Intent(memory_claim("uid-2", 0, 10), "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"), "uid-2")
    assert plugin.answers().keys() == {"uid-2"}


def test_without_a_specification_there_is_no_answer(plugin: Plugin) -> None:
    plugin.specifications.write_text("not a directory")
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    record = plugin.collected.wait_for("claim_unanswered")
    assert fields_of(record)["path"] == str(plugin.specifications / "numamem.io-claim_uid-1.json")
    assert not plugin.answers()
    plugin.specifications.unlink()
    plugin.write(Intent(CLAIM, "try-2"))
    plugin.turn()
    plugin.wait_answer(Answer("try-2"))


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("not a directory")
    plugin = Plugin(tmp_path)
    record = plugin.collected.wait_for("claim_files_unreadable")
    assert fields_of(record)["error"] == "Not a directory"
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.exchange.close()


def test_without_a_thread_the_claims_stay_charged_and_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(tmp_path)
    plugin.turn()
    plugin.write(Intent(CLAIM, "try-1"))
    plugin.turn()
    plugin.wait_answer(Answer("try-1"))

    def refuse(*_arguments: object) -> None:
        raise no_thread_error()

    monkeypatch.setattr(file_exchange, "start_thread", refuse)
    plugin.restart()
    record = plugin.collected.wait_for("claim_files_unreadable")
    assert fields_of(record)["error"] == NO_THREAD
    assert plugin.exchange.prepared() == (CLAIM,)
    assert not plugin.exchange.due(plugin.engine, 0.0)
    plugin.exchange.close()
