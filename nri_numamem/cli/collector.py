"""Keeps Python's collector of reference cycles out of requests.

Left to itself it runs when enough has been allocated, which is in the middle of a request that
allocates much, and looks at all there is: 30 ms with the books of 500 pods, and half of the time
of a Synchronize of thousands of containers. Serving makes no cycles but where something fails, so
waiting for a tick costs no memory to speak of; everything else is freed without the collector.
"""

import gc
from types import TracebackType
from typing import Self

# Objects made and not freed since the last collection, some 10 MB at most. A host with 500 pods
# comes near it once; an error with its traceback makes a hundred.
_MANY = 100_000


class Collector:
    """A context in which the collector runs in `tick` only."""

    def __init__(self) -> None:
        self._was_enabled = True

    def __enter__(self) -> Self:
        """Leave alone what is there by now; it stays as long as the process."""
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
        """Let it run as before."""
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()

    def tick(self) -> None:
        """Collect if there is reason to; for moments when nobody waits."""
        if gc.get_count()[0] >= _MANY:
            gc.collect()
