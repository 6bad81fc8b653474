"""The watchdog in a separate process, and with a counting stall guard."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nri_numamem.daemon import watchdog
from nri_numamem.daemon.watchdog import STALLED_STATUS, Watchdog

STALLED = """
import itertools, sys, threading, time
from nri_numamem.daemon import watchdog
threading.Thread(target=threading.Event().wait, name="other", daemon=True).start()
with watchdog.Watchdog(2) as watched:
    watchdog.STALL_S = 1.0
    watched.feed(time.monotonic())
    if sys.argv[1] == "sleeps":
        time.sleep(60)
    all(itertools.repeat(1))  # never releases the interpreter's lock
"""
IN_ITS_OWN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("what", ["sleeps", "hogs"])
def test_a_stalled_process_ends_with_the_traceback_of_each_thread(what: str) -> None:
    done = run(sys.executable, "-c", STALLED, what)
    assert done.returncode == STALLED_STATUS
    assert f'File "<string>", line {9 if what == "sleeps" else 10}' in done.stderr
    assert "in wait" in done.stderr  # the other thread


def test_process_1_of_a_container_ends_as_well() -> None:
    if run(*IN_ITS_OWN_NAMESPACE, "true").returncode:
        pytest.skip("needs user namespaces")
    done = run(*IN_ITS_OWN_NAMESPACE, sys.executable, "-c", STALLED, "hogs")
    assert done.returncode == STALLED_STATUS


class CountingGuard:
    def __init__(self, descriptor: int) -> None:
        self.calls: list[float | str] = [descriptor]

    def set(self, seconds: float) -> None:
        self.calls.append(seconds)

    def cancel(self) -> None:
        self.calls.append("cancelled")


def test_the_timer_runs_only_inside_the_context() -> None:
    made: list[CountingGuard] = []

    def new_guard(descriptor: int) -> CountingGuard:
        made.append(CountingGuard(descriptor))
        return made[-1]

    watched = Watchdog(7, new_guard)
    watched.feed(1.0)
    assert made == []
    with watched:
        watched.feed(2.0)
    watched.feed(100.0)
    (guard,) = made
    assert guard.calls == [7, watchdog.STALL_S, watchdog.STALL_S, "cancelled"]


def test_the_timer_is_set_anew_only_when_it_is_old() -> None:
    guard, beats = CountingGuard(7), list[int]()
    with Watchdog(7, lambda _descriptor: guard, beats.append) as watched:
        guard.calls.clear()
        for now_s in range(1, 49, 4):
            watched.feed(now_s)
        assert guard.calls == [watchdog.STALL_S] * 3  # at 1, 21 and 41
        assert beats == list(range(1, 14))
    assert watchdog.STALL_S - watchdog.RESET_S > 10  # a stop of the process that it survives


def test_a_cancelled_timer_ends_nothing() -> None:
    code = (
        "import time; from nri_numamem.daemon.watchdog import StallTimer\n"
        "timer = StallTimer(2); timer.set(0.1); timer.cancel(); time.sleep(0.5); print('alive')"
    )
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_a_crash_in_c_leaves_its_traceback() -> None:
    code = (
        "import os; from nri_numamem.daemon.watchdog import StallTimer\n"
        "StallTimer(2).cancel(); os.abort()"
    )
    done = run(sys.executable, "-c", code)
    assert done.returncode == -6
    assert "most recent call first" in done.stderr
