"""Collects records, and waits for one."""

import threading

from nri_numamem.engine.plan import Record

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
