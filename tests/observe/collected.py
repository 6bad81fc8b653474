"""Collects records of the metrics' threads, waits for one, and refuses threads."""

import threading

import pytest

from nri_numamem.engine.records.record import Record
from nri_numamem.observe.metrics.outputs import MetricsServer, TextFile

WAIT_S = 30


class Collected:
    """Callable that keeps the records it is called with, from any thread."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._more = threading.Condition()

    def __call__(self, record: Record) -> None:
        with self._more:
            self.records.append(record)
            self._more.notify_all()

    def wait_for(self, event: str) -> Record:
        with self._more:
            assert self._more.wait_for(lambda: event in self.events, WAIT_S), self.records
        return next(record for record in self.records if record.event == event)

    @property
    def events(self) -> list[str]:
        return [record.event for record in self.records]


def thread_of(output: MetricsServer | TextFile) -> threading.Thread:
    """Return the thread of an output that was started."""
    assert output._thread is not None
    return output._thread


def refuse_threads(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the next starts of threads fail, as in a process at its limit of threads."""
    start = threading.Thread.start
    left = [times]

    def limited(self: threading.Thread) -> None:
        if left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
