"""Resource claims: reads the agent's intents, lets the engine decide, and answers.

A thread reads and writes all files (``file_exchange``). The main thread decides on the intents
only while the runtime's containers are known: not before a Synchronize, and not without the lock of
the state file. The thread then writes the CDI specifications and the answers, in this order: the
kubelet gives the devices to the runtime after the answer.

An answer on the disk is the plugin's memory of a charged claim. After a restart, Synchronize
charges the claims with a positive answer before it records any container.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.file_exchange import FileExchange
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.claims.events import ClaimPrepared, ClaimReleased
from nri_numamem.engine.records.files import (
    ClaimFilesUnreadable,
    ClaimIntentUnusable,
    ClaimUnanswered,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import cdi
from nri_numamem.observe.claim_files import (
    Answer,
    ClaimFileError,
    Intent,
    Intents,
    answers_file,
    directory_of,
    read_answers,
    read_intents,
    write_answers,
)
from nri_numamem.observe.files import reason_of


class _Change(NamedTuple):
    """A specification to be written, or with None to be removed."""

    uid: str
    claim: Claim | None


class _Decided(NamedTuple):
    """What the main thread has decided."""

    changes: Sequence[_Change]
    by_uid: Mapping[str, Answer]
    """Uid of a claim -> answer, of all claims; the last ones count."""


class ClaimExchange:
    """The plugin's side of the claims' files; `emit` may be called by any thread.

    As a job it decides on the intents that the thread has read. `may_decide` returns whether the
    engine has the runtime's containers, and this process the lock. `wake_up` lets the main thread
    run the job.
    """

    name = "claims"

    def __init__(
        self,
        settings: Settings,
        emit: Callable[[Record], None],
        wall_s: Callable[[], float],
        may_decide: Callable[[], bool],
        wake_up: Callable[[], None],
    ) -> None:
        self._directory = directory_of(Path(settings.state_file_or_default))
        self._specifications = Path(settings.claims.cdi_directory)
        self._program = settings.claims.hook_program
        self._emit = emit
        self._wall_s = wall_s
        self._may_decide = may_decide
        self._files: FileExchange[Intents, _Decided] = FileExchange(
            "claims",
            answers_file(self._directory),
            self._read_intents,
            self._write_decided,
            wake_up,
        )
        self._last_answers: dict[str, Answer] = {}
        """Uid of a claim -> the last answer, on the disk or on the way to it."""
        self._unspecified: set[str] = set()
        """Claims whose specification cannot be written."""
        self._reported: frozenset[str] = frozenset()
        """Problems of the last reading."""

    def start(self) -> None:
        """Read the answers of an earlier process, then start the thread; report why not."""
        try:
            earlier = self._earlier_answers()
            self._last_answers = dict(earlier)
            self._files.start(lambda found: self._specify_charged(found, earlier))
        except OSError as error:
            self._emit(ClaimFilesUnreadable(path=str(self._directory), error=reason_of(error)))

    def _earlier_answers(self) -> Mapping[str, Answer]:
        try:
            return read_answers(self._directory)
        except ClaimFileError as error:  # the next answer replaces the file
            self._emit(ClaimFilesUnreadable(path=str(self._directory), error=str(error)))
            return {}

    def close(self) -> None:
        """End the thread; the files stay."""
        self._files.close()

    def prepared(self) -> tuple[Claim, ...] | None:
        """Return the claims that were charged and are still prepared; None if unknown."""
        try:
            found = read_intents(self._directory).found
        except (OSError, ClaimFileError):  # the thread reports it
            return None
        return tuple(each.claim for each in found if _is_charged(each, self._last_answers))

    # The main thread.

    def due(self, _engine: Engine, _now_s: float) -> bool:
        """Return whether there are intents that were read and not decided."""
        return self._files.is_new and self._may_decide()

    def run(self, engine: Engine, _now_s: float) -> Iterable[Record]:
        """Decide on the intents; hand the answers to the thread."""
        intents = self._files.take()
        if intents is None:
            return ()
        records: list[Record] = []
        changes: list[_Change] = []
        before = dict(self._last_answers)
        for uid in sorted((engine.state.claims.keys() | before.keys()) - intents.uids):
            records += engine.apply(ClaimReleased(uid), int(self._wall_s())).records
            if self._last_answers.pop(uid, None) is not None:
                changes.append(_Change(uid, None))
        for intent in intents.found:
            if not self._is_decided(engine, intent):
                done = engine.apply(ClaimPrepared(intent.claim), int(self._wall_s()))
                records += done.records
                refusal = done.plan.refusal or ""
                self._last_answers[intent.claim.uid] = Answer(intent.attempt, refusal)
                if not refusal:
                    changes.append(_Change(intent.claim.uid, intent.claim))
        if self._last_answers != before:
            self._files.hand_over(_Decided(changes, dict(self._last_answers)))
        return records

    def _is_decided(self, engine: Engine, intent: Intent) -> bool:
        """Return whether the attempt was refused, or its claim is charged."""
        answer = self._last_answers.get(intent.claim.uid)
        if answer is None or answer.attempt != intent.attempt:
            return False
        return bool(answer.refusal) or intent.claim.uid in engine.state.claims

    # The thread.

    def _specify_charged(self, found: Intents | None, earlier: Mapping[str, Answer]) -> None:
        """Write the specifications of charged claims; a reboot has removed them."""
        for intent in () if found is None else found.found:
            if _is_charged(intent, earlier):
                self._specify(intent.claim.uid, intent.claim)

    def _read_intents(self) -> Intents | None:
        """Return the intents, None if they cannot be read; report what is not usable, once."""
        problems: tuple[str, ...] = ()
        found: Intents | None = None
        try:
            found = read_intents(self._directory)
            problems = found.problems
        except OSError as error:
            problems = (reason_of(error),)
        except ClaimFileError as error:
            problems = (str(error),)
        for problem in problems:
            if problem not in self._reported:
                path = str(self._directory)
                unreadable = ClaimFilesUnreadable(path=path, error=problem)
                self._emit(ClaimIntentUnusable(cause=problem) if found else unreadable)
        self._reported = frozenset(problems)
        return found

    def _write_decided(self, several: Sequence[_Decided]) -> None:
        """Write specifications, then the answers whose specification is there."""
        for uid, claim in (change for each in several for change in each.changes):
            self._unspecified.discard(uid)
            if not self._specify(uid, claim) and claim is not None:
                self._unspecified.add(uid)
        by_uid = several[-1].by_uid
        left = {uid: each for uid, each in by_uid.items() if uid not in self._unspecified}
        path = answers_file(self._directory)
        self._try(path, lambda: write_answers(self._directory, left))

    def _specify(self, uid: str, claim: Claim | None) -> bool:
        """Write or remove the specification of a claim; return whether that succeeded."""
        directory = self._specifications
        path = cdi.specification_file(directory, uid)
        if claim is None:
            return self._try(path, lambda: cdi.remove_specification(directory, uid))
        return self._try(path, lambda: cdi.write_specification(directory, claim, self._program))

    def _try(self, path: Path, call: Callable[[], None]) -> bool:
        try:
            call()
        except OSError as error:
            self._emit(ClaimUnanswered(path=str(path), error=reason_of(error)))
            return False
        return True


def _is_charged(intent: Intent, by_uid: Mapping[str, Answer]) -> bool:
    return by_uid.get(intent.claim.uid) == Answer(intent.attempt)
