"""Processes of the kernel, as the supervisor reads and signals them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from nri_numamem.daemon.processes import Process, Processes, forward_signals
from tests.processes import children
from tests.simulated_host import wait_for


@pytest.fixture
def processes() -> Processes:
    return Processes()


def pause() -> int:
    while True:
        signal.pause()


def test_exit_statuses(processes: Processes) -> None:
    def terminate() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return pause()

    assert processes.reap(processes.start(lambda: 3)) == 3
    assert processes.reap(processes.start(terminate)) == -signal.SIGTERM
    killed = processes.start(pause)
    assert not processes.exits_within(killed, 0.01)
    processes.kill(killed)
    assert processes.exits_within(killed, 30)
    processes.kill(killed)  # it is a zombie, which is no error
    assert processes.reap(killed) == -signal.SIGKILL


def test_a_process_that_cannot_be_watched_is_not_left_behind(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = children(os.getpid())
    with pytest.raises(OSError, match="Too many open files"):
        processes.start(pause)
    assert children(os.getpid()) == before


def test_signals_are_forwarded(processes: Processes) -> None:
    number = signal.SIGUSR2

    def forward() -> int:
        """Return the signal that ended the process to which it is forwarded."""
        signal.signal(number, signal.SIG_IGN)
        other = processes.start(wait)
        forward_signals(other)
        while not processes.exits_within(other, 0.01):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # it has ended, but its status was not read
        return processes.reap(other)

    def wait() -> int:
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(number, lambda *_: os._exit(7))
        return pause()

    assert processes.reap(processes.start(forward)) == 7


def test_the_first_of_the_list_counts_when_both_have_exited(processes: Processes) -> None:
    first, second, lives = (processes.start(run) for run in (lambda: 0, lambda: 0, pause))
    for process in (first, second):
        assert processes.exits_within(process, 30)
    assert processes.first_exit((lives, first, second), 1) is first
    assert processes.first_exit((second, first), 1) is second
    assert processes.first_exit((lives,), 0.01) is None
    processes.kill(lives)
    for process in (first, second, lives):
        processes.reap(process)


def test_a_process_that_ignores_the_abort_is_killed(processes: Processes) -> None:
    code = (
        "import signal, time; signal.signal(6, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        process = Process(stubborn.pid, os.pidfd_open(stubborn.pid))
        wait_for(lambda: processes.activity(process).state in "SR")
        processes.abort(process)
        assert stubborn.wait(30) == -signal.SIGKILL
        processes.abort(process)  # it has ended, which is no error
        os.close(process.descriptor)


def test_the_clock_advances(processes: Processes) -> None:
    assert processes.monotonic_s() <= processes.monotonic_s()
