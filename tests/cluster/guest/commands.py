"""Run programs in the guest."""

import subprocess

from tests.e2e.guest.waiting import TIMEOUT_S


def output(*command: str) -> str:
    """Return what a program prints; raise RuntimeError if it fails."""
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
