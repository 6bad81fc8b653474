"""Run programs in the guest, and start some that the kernel may end when it needs memory.

A program inherits the protection of the one that started it from the kernel's OOM killer, and
this program's is complete (machines.service).
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.machines.guest.waiting import TIMEOUT_S


def output(*command: str) -> str:
    """Run a program to its end; return what it prints. Raises RuntimeError if it fails."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stdout[-1000:]}")
    return done.stdout


def unprotected(*command: str) -> tuple[str, ...]:
    """Return a command that the kernel may end as any other program."""
    return ("choom", "--adjust", "0", "--", *command)


@contextmanager
def first_victim(script: str) -> Iterator[None]:
    """Run a shell script, which the kernel ends before others; at the end kill what it started."""
    command = ["/bin/sh", "-c", f"echo 1000 > /proc/self/oom_score_adj; {script}"]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
