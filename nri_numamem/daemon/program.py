"""The command line that starts this program again."""

import sys


def is_single_file() -> bool:
    """Return whether this process runs the single executable file."""
    return bool(getattr(sys, "frozen", False))


def program() -> tuple[str, ...]:
    """Return the command line that starts this program, without arguments."""
    if is_single_file():
        return (sys.executable,)
    return (sys.executable, "-m", "nri_numamem")
