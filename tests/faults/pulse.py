"""Notices when the machine stands still, because others need it.

Lives have deadlines, as real runtimes do. A machine on which nothing runs for a while breaks them
whatever the plugin does, so a failure in such a life says little.
"""

import threading
import time

_BEAT_S = 0.02

# The shortest timeout of a runtime in a life is 0.5 s, and several processes need it in turn.
_STOPPED_S = 0.1


class Pulse:
    """Beats from now on in a thread of its own, until it is closed."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        """The longest time that a beat came late."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether the machine stood still for long enough to matter."""
        return self.worst_s > _STOPPED_S

    def close(self) -> None:
        """End."""
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        before = time.monotonic()
        while not self._end.wait(_BEAT_S):
            now = time.monotonic()
            self.worst_s = max(self.worst_s, now - before - _BEAT_S)
            before = now
