"""systemctl and journalctl in the guest, whose process 1 is systemd.

This module depends on systemd, and not on a unit.
"""

import subprocess
from pathlib import Path

from tests.machines.guest.waiting import TIMEOUT_S

_RUNTIME_UNITS = Path("/run/systemd/system")

ONE_THREAD = "Environment=GOMAXPROCS=1"
"""For units of Go programs: on emulated processors several threads wait for each other."""


def systemctl(*arguments: str) -> str:
    """Run systemctl to its end; return its output. Raises RuntimeError if it fails."""
    command = ["systemctl", "--no-pager", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
    return done.stdout.strip()


def show(unit: str, name: str) -> str:
    """Return a property of a unit, such as MainPID."""
    return systemctl("show", "--value", f"--property={name}", unit)


def is_active(unit: str) -> bool:
    """Return whether a unit runs, also while it starts or stops."""
    return show(unit, "ActiveState") not in ("inactive", "failed")


def write_drop_in(unit: str, text: str) -> None:
    """Change a unit until the machine ends; systemd reads it with its next daemon-reload."""
    path = _RUNTIME_UNITS / f"{unit}.d" / "e2e.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def journal(*arguments: str) -> str:
    """Return what journalctl prints."""
    command = ["journalctl", "--quiet", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
    )
    return done.stdout + done.stderr
