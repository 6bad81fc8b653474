"""Where the figures of the metrics come from, and what /healthz shows of them.

Needs no library, so that any plugin can make one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri_numamem.engine.engine import Committed
from nri_numamem.observe.metrics.counters import Meter

if TYPE_CHECKING:
    from nri_numamem.engine.features.residency.remote_memory import Round


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the figures. Any thread may call the functions."""

    meter: Meter
    committed: Callable[[], Committed | None]
    """Return the engine's context and state; None without an engine."""
    failed_writes: Callable[[], int]
    """Return how many writes of the state file failed."""
    written_at_s: Callable[[], float | None]
    """Return when the state file was written, in seconds since 1970; None if it was not."""
    remote_bytes: Callable[[], Mapping[int, int]]
    """Return NUMA node -> bytes of pages there of containers that are pinned to other nodes."""
    monotonic_s: Callable[[], float]
    standby: Callable[[], str] = str
    """Return why this instance waits and does not serve the runtime; "" if it serves."""
    residency: Callable[[], Round | None] = lambda: None
    """Return what the last round over the containers' pages found; None without the setting."""


# The event loop shows every 2 s that it is alive; a process beside it ends it after some 12 s.
SILENT_S = 10.0


def health(sources: Sources) -> tuple[bool, str]:
    """Return whether this instance does its work, and a text: the problems, or "ok".

    A standby does its work while it waits: the instance that holds the lock serves the runtime.
    """
    meter, cause = sources.meter, sources.standby()
    found: list[str] = []
    if not cause:
        if sources.committed() is None:
            found.append("the configuration cannot be used; see the log")
        if not meter.is_registered:
            found.append("the plugin is not registered with the runtime")
    if (cause or meter.is_registered) and meter.ticked_at_s is not None:
        silent_s = sources.monotonic_s() - meter.ticked_at_s
        if silent_s > SILENT_S:
            found.append(f"the event loop has been busy or stuck for {silent_s:.0f} s")
    return not found, "\n".join(found) or (f"standby: {cause}" if cause else "ok")
