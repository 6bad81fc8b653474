"""Earmarks: reads what commands want, lets the engine decide, and answers.

A thread reads and writes the files (``file_exchange``). The main thread decides only while the
runtime's containers are known and with the lock of the state file. It also ends the earmarks whose
time is over, whatever the files say, so that no command has to remain for that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nri_numamem.daemon.file_exchange import FileExchange
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.earmarks.events import (
    DropEarmark,
    EndExpiredEarmarks,
    MakeEarmark,
)
from nri_numamem.engine.records.files import EarmarkFilesUnusable
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.earmark_files import (
    EarmarkAnswer,
    Wanted,
    answers_file,
    read_wanted,
    remove_wanted,
    write_answers,
)
from nri_numamem.observe.files import reason_of


class _Decided(NamedTuple):
    """What the main thread has decided."""

    by_uid: Mapping[str, EarmarkAnswer]
    """Uid of an earmark -> answer, of all earmarks."""
    expired: frozenset[str] = frozenset()
    """Uids of earmarks whose time is over, and whose files go."""


class EarmarkExchange:
    """The plugin's side of the files; as a job it decides on what the thread has read.

    `emit` may be called by any thread. `may_decide` returns whether the engine has the runtime's
    containers, and this process the lock. `wake_up` lets the main thread run the job.
    """

    name = "earmarks"

    def __init__(
        self,
        directory: Path,
        emit: Callable[[Record], None],
        wall_s: Callable[[], float],
        may_decide: Callable[[], bool],
        wake_up: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._emit = emit
        self._wall_s = wall_s
        self._may_decide = may_decide
        self._files: FileExchange[Wanted, _Decided] = FileExchange(
            "earmarks", answers_file(directory), self._read, self._write, wake_up
        )
        self._last_answers: Mapping[str, EarmarkAnswer] = {}
        self._reported: frozenset[str] = frozenset()
        """Problems of the last reading."""

    def start(self) -> None:
        """Start the thread; report why not."""
        try:
            self._files.start()
        except OSError as error:
            self._report(f"{self._directory}: {reason_of(error)}")

    def close(self) -> None:
        """End the thread; the files stay."""
        self._files.close()

    # The main thread.

    def due(self, engine: Engine, _now_s: float) -> bool:
        """Return whether there are files that were read and not decided, or time is over."""
        if not self._may_decide():
            return False
        now_s = self._wall_s()
        return self._files.is_new or any(
            each.expires_s <= now_s for each in engine.state.earmarks.values()
        )

    def run(self, engine: Engine, _now_s: float) -> Iterable[Record]:
        """Decide; hand the answers to the thread."""
        now_s = self._wall_s()
        records = list(engine.apply(EndExpiredEarmarks(now_s), int(now_s)).records)
        wanted = self._files.take()
        if wanted is None:
            return records
        for uid in sorted(engine.state.earmarks.keys() - wanted.uids):
            records += engine.apply(DropEarmark(uid), int(now_s)).records
        by_uid: dict[str, EarmarkAnswer] = {}
        expired: set[str] = set()
        for earmark in wanted.earmarks:
            if earmark.expires_s <= now_s:
                expired.add(earmark.uid)
                continue
            before = self._last_answers.get(earmark.uid)
            if before is not None and before.refusal and before.expires_s == earmark.expires_s:
                by_uid[earmark.uid] = before
                continue
            done = engine.apply(MakeEarmark(earmark), int(now_s))
            records += done.records
            by_uid[earmark.uid] = EarmarkAnswer(earmark.expires_s, done.plan.refusal or "")
        if by_uid != self._last_answers or expired:
            self._last_answers = by_uid
            self._files.hand_over(_Decided(by_uid, frozenset(expired)))
        return records

    # The thread.

    def _read(self) -> Wanted | None:
        """Return what commands want, None if it cannot be read; report problems once."""
        problems: tuple[str, ...] = ()
        found: Wanted | None = None
        try:
            found = read_wanted(self._directory)
            problems = found.problems
        except OSError as error:
            problems = (f"{self._directory}: {reason_of(error)}",)
        for problem in problems:
            if problem not in self._reported:
                self._report(problem)
        self._reported = frozenset(problems)
        return found

    def _write(self, several: Sequence[_Decided]) -> None:
        try:
            for uid in {uid for each in several for uid in each.expired}:
                remove_wanted(self._directory, uid)
            write_answers(self._directory, several[-1].by_uid)
        except OSError as error:
            self._report(f"{answers_file(self._directory)}: {reason_of(error)}")

    def _report(self, cause: str) -> None:
        self._emit(EarmarkFilesUnusable(cause=cause))
