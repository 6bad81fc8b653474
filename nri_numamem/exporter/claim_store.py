"""The agent's side of the claims' files: its intents, and the plugin's answers to them.

Calls of the kubelet run on many threads at a time. Those that change the intents while the file is
being written share the next write. One thread waits for the answers of all.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe.claim_files import (
    Answer,
    ClaimFileError,
    Intent,
    Intents,
    intents_file,
    read_answers,
    read_intents,
    write_intents,
)
from nri_numamem.observe.files import reason_of
from nri_numamem.observe.threads import start_thread
from nri_numamem.observe.wake import WakeSocket

LOOK_S = 1.0
"""Between two readings of the answers without a datagram."""


class ClaimStore:
    """A context; any thread may call its methods."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        # What guards the intents and the answers; notified when answers have changed.
        self._changed = threading.Condition()
        self._intents: dict[str, Intent] = {}
        self._version = 0
        """Of the intents."""
        self._writing = threading.Lock()
        self._written = 0
        """The version that is on the disk."""
        self._last_answers: Mapping[str, Answer] = {}
        self._problem = ""
        """Why the answers cannot be read."""
        self.dropped: tuple[str, ...] = ()
        """One text for each intent of an earlier process that cannot be used."""
        self._is_closing = False
        self._socket: WakeSocket | None = None

    def __enter__(self) -> Self:
        """Read the intents of an earlier process, and wait for answers; raises OSError.

        Intents that cannot be used are dropped with the next write: the kubelet prepares its claims
        again, and must be able to end them.
        """
        try:
            found = read_intents(self._directory)
        except ClaimFileError as error:
            found = Intents(problems=(str(error),))
        self.dropped = found.problems
        self._intents = {intent.claim.uid: intent for intent in found.found}
        sock = self._socket = WakeSocket(intents_file(self._directory), LOOK_S)
        self._read_answers()
        start_thread(lambda: self._wait_for_answers(sock), "claims")
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the thread; the files stay."""
        self.stop()
        if self._socket is not None:
            self._socket.close()

    def stop(self) -> None:
        """End the calls of `wait`."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def intents(self) -> tuple[Intent, ...]:
        """Return the intents."""
        with self._changed:
            return tuple(self._intents.values())

    def is_charged(self, claim: Claim) -> bool:
        """Return whether the plugin has charged a claim as it is."""
        with self._changed:
            intent = self._intents.get(claim.uid)
            if intent is None or intent.claim != claim:
                return False
            return self._last_answers.get(claim.uid) == Answer(intent.attempt)

    def begin(self, claim: Claim) -> str:
        """Write a new attempt for a claim; return its id. Raises OSError."""
        attempt = os.urandom(8).hex()
        with self._changed:
            self._intents[claim.uid] = Intent(claim, attempt)
            self._version += 1
            version = self._version
        self._write(version)
        return attempt

    def remove(self, uid: str) -> None:
        """Remove the intent of a claim, if there is one; raises OSError."""
        with self._changed:
            if self._intents.pop(uid, None) is not None:
                self._version += 1
            version = self._version
        self._write(version)

    def wait(self, uid: str, attempt: str, end_s: float) -> Answer | None:
        """Return the answer to an attempt; None without one until `end_s`, or after `stop`."""
        with self._changed:
            while True:
                answer = self._last_answers.get(uid)
                if answer is not None and answer.attempt == attempt:
                    return answer
                left_s = end_s - self._clock()
                if left_s <= 0.0 or self._is_closing:
                    return None
                self._changed.wait(min(left_s, LOOK_S))

    @property
    def is_closing(self) -> bool:
        """Whether `stop` was called."""
        return self._is_closing

    @property
    def problem(self) -> str:
        """Why the answers cannot be read; "" if they can."""
        return self._problem

    def _write(self, version: int) -> None:
        """Return when a version of the intents, or a later one, is on the disk."""
        with self._writing:
            if self._written >= version:
                return
            with self._changed:
                version, intents = self._version, tuple(self._intents.values())
            write_intents(self._directory, intents)
            self._written = version

    def _wait_for_answers(self, sock: WakeSocket) -> None:
        while sock.wait():
            self._read_answers()

    def _read_answers(self) -> None:
        problem = ""
        try:
            found = read_answers(self._directory)
        except OSError as error:
            found, problem = self._last_answers, f"{self._directory}: {reason_of(error)}"
        except ClaimFileError as error:
            found, problem = self._last_answers, str(error)
        with self._changed:
            self._problem = problem
            if found != self._last_answers:
                self._last_answers = found
                self._changed.notify_all()
