"""The plugin's side of the files for resource claims: answers intents as a test demands."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import Answer, Intent
from nri_numamem.observe.wake import WakeSocket, wake
from tests.observe.collected import WAIT_S


class ClaimPlugin:
    """A context in which intents are answered. Its fields may change at any time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.refusals: dict[str, str] = {}
        """Name of a claim -> why it is refused."""
        self.ignored: set[str] = set()
        """Names of claims that get no answer."""
        self.answered: list[Intent] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._sock = WakeSocket(claim_files.answers_file(self.directory), WAIT_S)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sock.close()
        self._thread.join()

    def wake(self) -> None:
        """Let it read the intents."""
        wake(claim_files.answers_file(self.directory))

    def intents(self) -> dict[str, Intent]:
        """Return name of the claim -> its intent, of all that are there."""
        found = claim_files.read_intents(self.directory)
        assert not found.problems
        return {intent.claim.name: intent for intent in found.found}

    def _run(self) -> None:
        attempts: set[str] = set()
        answers = dict[str, Answer]()
        is_open = True
        while is_open:
            intents = claim_files.read_intents(self.directory)
            before = answers
            answers = {uid: answer for uid, answer in answers.items() if uid in intents.uids}
            for intent in intents.found:
                name = intent.claim.name
                if intent.attempt in attempts or name in self.ignored:
                    continue
                attempts.add(intent.attempt)
                self.answered.append(intent)
                answers[intent.claim.uid] = Answer(intent.attempt, self.refusals.get(name, ""))
            if answers != before:
                claim_files.write_answers(self.directory, answers)
            is_open = self._sock.wait()
