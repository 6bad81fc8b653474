"""Detect that the machine stood still, because other work used its processors.

Lives have deadlines, as real runtimes do. A standstill breaks them whatever the plugin does, so a
failure of such a life is inconclusive.
"""

import threading
import time

_BEAT_S = 0.02

# The shortest timeout of a runtime in a life is 0.5 s, and several processes need it in turn.
_STOPPED_S = 0.1


class Heartbeat:
    """Wakes up regularly in a thread of its own, from its creation until close()."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        """The longest delay of a wake-up."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether the machine stood still for long enough to matter."""
        return self.worst_s > _STOPPED_S

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        before = time.monotonic()
        while not self._end.wait(_BEAT_S):
            now = time.monotonic()
            self.worst_s = max(self.worst_s, now - before - _BEAT_S)
            before = now
