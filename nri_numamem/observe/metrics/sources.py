"""Where the figures of the metrics come from. Needs no library, so that any plugin can make one."""

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
