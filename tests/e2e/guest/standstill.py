"""Notices when the virtual machine stood still: its host was busy with other things.

For that time nothing in it ran, and then all clocks are over at once: timeouts, and the plugin's
watchdog. What fails then says nothing about anything. Knows clocks, and nothing of phases.
"""

import threading
import time

_BEAT_S = 0.25

# The runtimes' and the watchdog's patience is above this; a busy emulated machine stays below.
LONGEST_S = 3.0


class Heartbeat:
    """A thread that wants to run four times a second, and sees when it could not."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        threading.Thread(target=self._beat, daemon=True).start()

    def longest_s(self) -> float:
        """Return the longest standstill since the last call, in seconds."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def _beat(self) -> None:
        while True:
            began_s = time.monotonic()
            time.sleep(_BEAT_S)
            self._longest_s = max(self._longest_s, time.monotonic() - began_s - _BEAT_S)
