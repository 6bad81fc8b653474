"""The exchanges of files with other processes, each only with its setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nri_numamem.config.settings import Settings
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.nri.poller import Clock

if TYPE_CHECKING:
    from nri_numamem.daemon.claims import ClaimExchange
    from nri_numamem.daemon.earmarks import EarmarkExchange

NAMES = ("claims", "earmarks")
"""Of their jobs, which run when a file has changed."""


class Exchanges:
    """Those that the settings enable; they have threads until `close`."""

    def __init__(
        self,
        settings: Settings,
        emit: Callable[[Record], None],
        clock: Clock,
        may_decide: Callable[[], bool],
        wake_up: Callable[[], None],
    ) -> None:
        self._claims: ClaimExchange | None = None
        self._earmarks: EarmarkExchange | None = None
        if settings.claims.enabled:
            from nri_numamem.daemon import claims  # noqa: PLC0415 - only for the setting

            self._claims = claims.ClaimExchange(settings, emit, clock.wall_s, may_decide, wake_up)
        if settings.earmarks.enabled:
            from nri_numamem.daemon import earmarks  # noqa: PLC0415 - only for the setting
            from nri_numamem.observe.earmark_files import directory_of  # noqa: PLC0415 - as above

            directory = directory_of(Path(settings.state_file_or_default))
            self._earmarks = earmarks.EarmarkExchange(
                directory, emit, clock.wall_s, may_decide, wake_up
            )
        for each in self:
            each.start()

    def __iter__(self) -> Iterator[ClaimExchange | EarmarkExchange]:
        """Yield the exchanges, which are jobs on the engine."""
        for each in (self._claims, self._earmarks):
            if each is not None:
                yield each

    def close(self) -> None:
        """End their threads."""
        for each in self:
            each.close()

    def prepared_claims(self) -> tuple[Claim, ...] | None:
        """Return the resource claims that are charged and prepared; None if unknown."""
        return None if self._claims is None else self._claims.prepared()
