"""Runs Python's garbage collector between requests only.

Left to itself the collector runs when enough objects were allocated, which is in the middle of a
request that allocates many, and it visits all objects: 30 ms with the accounting of 500 pods, and
half of the time of a Synchronize of thousands of containers. Serving creates reference cycles only
where something fails, so waiting for a tick costs little memory.
"""

import gc
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from nri_numamem.engine.records.record import Record

# Objects made and not freed since the last collection, some 10 MB at most. A host with 500 pods
# comes near it once; an error with its traceback makes a hundred.
_MANY = 100_000


class GcControl:
    """A context in which the collector runs as a periodic job only."""

    name = "garbage collection"

    def __init__(self) -> None:
        self._was_enabled = True

    def __enter__(self) -> Self:
        """Exclude all present objects; they stay as long as the process."""
        self._was_enabled = gc.isenabled()
        gc.disable()
        gc.freeze()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the collector."""
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    def due(self, _now_s: float) -> bool:
        """Return whether many objects were allocated since the last collection."""
        return gc.get_count()[0] >= _MANY

    def run(self, _now_s: float) -> Iterable[Record]:
        """Collect."""
        gc.collect()
        return ()
