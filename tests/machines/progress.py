"""Lines about what is being built and run, while tests wait; pytest would hold them back."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Build:
    """What may have to be built, and about how long that takes on two processors."""

    name: str
    minutes: float
    is_cached: Callable[[], bool]


class Progress:
    """Writes lines with the time since it was made."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        """Write a line."""
        minutes, seconds = divmod(int(time.monotonic() - self._began_s), 60)
        with self._lock:
            self._stream.write(f"[{minutes}:{seconds:02}] {text}\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the stream."""
        with self._lock:
            self._stream.close()

    @contextmanager
    def step(self, what: str, about_min: float) -> Iterator[None]:
        """Announce what takes minutes, write every minute that it goes on, and write its end."""
        began_s = time.monotonic()
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(_INTERVAL_S):
                self.line(f"{what}: {_minutes(began_s)} so far, of about {about_min:g}")

        self.line(f"{what}: begins, about {about_min:g} min")
        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.line(f"{what}: done in {_minutes(began_s)}")

    def of_machine(self, name: str) -> Callable[[dict[str, Any]], None]:
        """Return a function that writes lines of a machine's records."""
        failed, count = 0, 0

        def on_record(record: dict[str, Any]) -> None:
            nonlocal failed, count
            if record["kind"] == "begin":
                self.line(f"{name}: phase {record['phase']} begins")
                failed = count = 0
            elif record["kind"] == "check":
                count, failed = count + 1, failed + (not record["ok"])
            elif record["kind"] == "repeated":
                self.line(f"{name}: phase {record['phase']} failed and is repeated")
                failed = count = 0
            elif record["kind"] == "end":
                self.line(f"{name}: phase {record['phase']}: {count} checks, {failed} failed")

        return on_record


def _minutes(began_s: float) -> str:
    return f"{(time.monotonic() - began_s) / 60:.1f} min"


def past_capture() -> Progress:
    """Return one for the process's output; call it where pytest captures nothing."""
    return Progress(os.fdopen(os.dup(sys.__stdout__.fileno() if sys.__stdout__ else 1), "w"))
