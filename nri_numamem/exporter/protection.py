"""Keeps the credentials in this process from others of the same user.

Processes of one user may read each other's memory and root directory by /proc, hence the token. The
kernel refuses that for a process that is not dumpable. Python has no interface to prctl(2).
"""

import ctypes
from typing import Protocol

_PR_SET_DUMPABLE = 4  # linux/prctl.h


class Library(Protocol):
    """The C library's function."""

    def prctl(self, option: int, value: int, *unused: int) -> int:
        """Call the kernel; see the manual page of prctl."""


def hide_from_other_processes(library: Library | None = None) -> bool:
    """Make /proc/PID/root and the memory of this process unreadable; return whether it worked.

    Processes with CAP_SYS_PTRACE can read them all the same.
    """
    library = library or ctypes.CDLL(None)
    return library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
