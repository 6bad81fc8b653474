"""Runs a program on a kernel that seems to lack a system call.

Usage: python -m tests.packaging.refuse_call NUMBER PROGRAM [ARGUMENT]... Source: seccomp(2).
"""

import ctypes
import errno
import os
import struct
import sys

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def main() -> None:
    """Install the filter and become the program."""
    number, program, *arguments = sys.argv[1:]
    steps = (
        (_LOAD, 0, 0, 0),  # the number of the call
        (_JUMP_EQUAL, 0, 1, int(number)),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = b"".join(struct.pack("<HBBI", *step) for step in steps)
    library = ctypes.CDLL(None, use_errno=True)
    filtered = ctypes.byref(_Program(len(steps), code))
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.prctl(_SECCOMP, _FILTER, filtered):
        raise OSError(ctypes.get_errno(), "prctl")
    os.execv(program, [program, *arguments])  # noqa: S606 - without a shell on purpose


if __name__ == "__main__":
    main()
