"""The setting `residency`, apart from the rules, which are not loaded while it is off."""

from dataclasses import dataclass

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class HeadRoomLimit:
    """The head-room below which an alarm is raised; one of the two is set."""

    size_bytes: int = 0
    percent: int = 0
    """Of the total memory of the nodes."""

    def warn_below(self, total_bytes: int) -> int:
        """Return the limit in bytes, for nodes with this much memory."""
        return self.size_bytes or total_bytes * self.percent // _PERCENT

    def clear_above(self, total_bytes: int) -> int:
        """Return the head-room from which an alarm is cleared.

        It is a quarter of the limit higher, and at least one percent of the memory, so that a
        figure that varies a little gives one alarm.
        """
        below = self.warn_below(total_bytes)
        return below + max(below // 4, total_bytes // _PERCENT)


@dataclass(frozen=True, slots=True)
class Residency:
    """The setting `residency`."""

    interval_s: int = 0
    """Each container is read once in this time; 0 if it is off."""
    per_container: bool = False
    """Whether there are metrics of single containers."""
    remote_percent: int = 10
    head_room: HeadRoomLimit | None = None
    """None for no alarms."""


OFF = Residency()
