"""Detects pauses of the virtual machine or of one of its processors.

The emulator runs all virtual processors in turn in one thread of its host, and the host runs other
processes too. A process on a processor that gets no turn makes no progress although the others do,
and after a pause all timeouts expire at once, also those of the runtime and of the plugin's
watchdog. A failure in a phase with a long pause is therefore inconclusive.
"""

import os
import threading
import time

_INTERVAL_S = 0.25

# The timeouts of the runtimes and the watchdog are longer. Pauses of a busy emulated machine are
# shorter.
SIGNIFICANT_PAUSE_S = 3.0


class PauseDetector:
    """A thread on each processor that wakes four times a second and measures its delay."""

    def __init__(self) -> None:
        self._longest_s = dict.fromkeys(os.sched_getaffinity(0), 0.0)
        for cpu in self._longest_s:
            threading.Thread(target=self._measure, args=(cpu,), daemon=True).start()

    def longest_s(self) -> dict[int, float]:
        """Return processor -> its longest pause since the last call, in seconds."""
        longest_s = dict(self._longest_s)
        self._longest_s.update(dict.fromkeys(longest_s, 0.0))
        return longest_s

    def _measure(self, cpu: int) -> None:
        os.sched_setaffinity(threading.get_native_id(), {cpu})
        while True:
            began_s = time.monotonic()
            time.sleep(_INTERVAL_S)
            delay_s = time.monotonic() - began_s - _INTERVAL_S
            self._longest_s[cpu] = max(self._longest_s[cpu], delay_s)
