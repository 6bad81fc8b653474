"""Runs programs, on the host and in a build root."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

_LAST_LINES = 30

# Usage: sh -ec _ENTER NAME ROOT BUILD COMMAND...
_ENTER = """
mount -t proc proc "$1/proc"
mkdir -p "$1/build"
mount --bind "$2" "$1/build"
root=$1
shift 2
exec env -i HOME=/ LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
"""


class BuildError(Exception):
    """A step failed; the text names it and ends with the last lines that it printed."""


# Mounts end with the program in this namespace.
_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program and return what it printed; BuildError if it fails or is missing."""
    words = [os.fspath(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise BuildError(f"{error.filename} is not installed") from error
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise BuildError(f"{shlex.join(words)} ended with status {done.returncode}:\n{end}")
    return done.stdout


def run_with_own_mounts(*command: str | Path) -> str:
    """Run a program whose mounts no other program sees; as `run` does."""
    return run(*_OWN_MOUNTS, *command)


def run_in_root(root: Path, build: Path, *command: str) -> str:
    """Run a program in a root, where the folder `build` is /build; as `run` does."""
    return run_with_own_mounts("sh", "-ec", _ENTER, "enter", root, build, *command)


def remove(*folders: Path) -> None:
    """Remove folders and what is in them, but nothing that is mounted there."""
    run("rm", "-rf", "--one-file-system", "--", *folders)


def report(text: str) -> None:
    """Show what the build does."""
    print(f"single file: {text}", file=sys.stderr, flush=True)
