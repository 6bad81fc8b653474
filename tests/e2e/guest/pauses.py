"""Detects pauses of the virtual machine, during which its host runs other processes.

After a pause all timeouts expire at once, also those of the runtime and of the plugin's watchdog.
A failure in a phase with a long pause is therefore inconclusive.
"""

import threading
import time

_INTERVAL_S = 0.25

# The timeouts of the runtimes and the watchdog are longer. Pauses of a busy emulated machine are
# shorter.
SIGNIFICANT_PAUSE_S = 3.0


class PauseDetector:
    """A thread that wakes four times a second and measures its delay."""

    def __init__(self) -> None:
        self._longest_s = 0.0
        threading.Thread(target=self._measure, daemon=True).start()

    def longest_s(self) -> float:
        """Return the longest pause since the last call, in seconds."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s

    def _measure(self) -> None:
        while True:
            began_s = time.monotonic()
            time.sleep(_INTERVAL_S)
            self._longest_s = max(self._longest_s, time.monotonic() - began_s - _INTERVAL_S)
