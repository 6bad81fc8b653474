"""The watchdog in a process of its own, with each of its clocks."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from nri_numamem.cli import watchdog
from nri_numamem.cli.posix_timer import EXPIRED, EXPIRED_STATUS, PosixTimer
from nri_numamem.cli.watchdog import Clock, ThreadClock, Watchdog, clock

STALLED = """
import itertools, signal, sys, threading, time
signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGVTALRM})
if sys.argv[1] == "ThreadClock":
    sys.modules["ctypes"] = None  # as in a Python without it
from nri_numamem.cli import watchdog
threading.Thread(target=threading.Event().wait, name="other", daemon=True).start()
with watchdog.Watchdog(2) as watched:
    assert type(watched._clock).__name__ == sys.argv[1]
    watchdog.STALL_S = 0.3
    watched.feed()
    if sys.argv[2] == "sleeps":
        time.sleep(60)
    all(itertools.repeat(1))  # gives the interpreter's lock to nobody
"""
STATUS = {"PosixTimer": EXPIRED_STATUS, "ThreadClock": 1}
IN_ITS_OWN_WORLD = ("unshare", "--user", "--map-root-user", "--pid", "--fork")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", STATUS)
@pytest.mark.parametrize("what", ["sleeps", "hogs"])
def test_a_process_that_stands_still_ends_with_all_tracebacks(name: str, what: str) -> None:
    done = run(sys.executable, "-c", STALLED, name, what)
    assert done.returncode == STATUS[name]
    assert f'File "<string>", line {14 if what == "sleeps" else 15}' in done.stderr
    assert "in wait" in done.stderr  # the other thread


def test_a_process_1_ends_as_well() -> None:
    """A signal's default action the kernel spares it."""
    if run(*IN_ITS_OWN_WORLD, "true").returncode:
        pytest.skip("needs user namespaces")
    done = run(*IN_ITS_OWN_WORLD, sys.executable, "-c", STALLED, "PosixTimer", "hogs")
    assert done.returncode == EXPIRED_STATUS


def test_one_that_is_fed_lives_and_is_left_alone_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Counting:
        def __init__(self) -> None:
            self.told: list[float | str] = []

        def set(self, seconds: float) -> None:
            self.told.append(seconds)

        def close(self) -> None:
            self.told.append("closed")

    counting = Counting()
    monkeypatch.setattr(watchdog, "clock", lambda _descriptor: counting)
    watched = Watchdog(2)
    watched.feed()  # nothing is watched yet
    with watched:
        watched.feed()
    watched.feed()
    assert counting.told == [watchdog.STALL_S, watchdog.STALL_S, "closed"]


@pytest.mark.parametrize("make", [PosixTimer, ThreadClock])
def test_a_clock_that_was_closed_leaves_nothing_behind(make: type[Clock]) -> None:
    for _ in range(3):
        running = make(2)  # type: ignore[call-arg] # both take a descriptor
        running.set(60)
        running.close()
        assert signal.getsignal(EXPIRED) is signal.SIG_DFL


def test_without_such_timers_there_is_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: PosixTimer, _descriptor: int) -> None:
        raise OSError(38, "Function not implemented")

    running = clock(2)
    assert isinstance(running, PosixTimer)
    running.close()
    monkeypatch.setattr(PosixTimer, "__init__", fail)
    assert isinstance(clock(2), ThreadClock)
