"""Repeat a phase that failed, because an emulated machine may pause."""

from collections.abc import Callable

from tests.machines.guest.checks import Report
from tests.machines.guest.pauses import SIGNIFICANT_PAUSE_S, PauseDetector

# Runs of a phase, at most.
_ATTEMPTS = 3


def run_with_retries(
    report: Report, phase: str, pauses: PauseDetector, run: Callable[[int], list[str]]
) -> None:
    """Run a phase, and repeat it if it failed; the last run counts, and the others are reported.

    A phase runs twice at most, or _ATTEMPTS times if the machine paused in each run that failed.
    `run` takes the number of the attempt, from 1, and returns what failed. The host knows from the
    records "begin" and "end" in which phase a machine ended.
    """
    report.write("begin", phase=phase)
    for attempt in range(1, _ATTEMPTS + 1):
        pauses.longest_s()
        failures = run(attempt)
        longest_s = [round(seconds, 1) for seconds in pauses.longest_s().values()]
        report.write("pause", phase=phase, seconds=longest_s)
        may_repeat = attempt == 1 or max(longest_s) >= SIGNIFICANT_PAUSE_S
        if not failures or attempt == _ATTEMPTS or not may_repeat:
            break
        report.write("repeated", phase=phase, failures=failures)
    if failures:
        report.write("broken", detail=f"phase {phase}: {failures[0]}")
    report.write("end", phase=phase)
