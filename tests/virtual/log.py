"""A log in memory, for a plugin in a virtual world."""

from typing import Any

from nri_numamem.observe.log.bounds import expanded


class MemoryLog:
    """A logger that keeps its records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        """The fields of each record, and its event as "event"."""
        self.warnings: list[dict[str, Any]] = []
        """Those of the level warning."""

    @property
    def events(self) -> list[str]:
        """The events of all records, in order."""
        return [record["event"] for record in self.records]

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return all records of an event."""
        return [record for record in self.records if record["event"] == event]

    def _add(self, event: str, /, **fields: object) -> None:
        self.records.append({"event": str(event), **expanded(fields)})

    def warning(self, event: str, /, **fields: object) -> None:
        self._add(event, **fields)
        self.warnings.append(self.records[-1])

    debug = info = error = _add
