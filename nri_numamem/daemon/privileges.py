"""Drops the capabilities that the plugin does not need.

A launched plugin inherits those of the runtime, and keeps KEPT of them. A service has what its unit
gives it. CAP_SYS_ADMIN, which networkHints needs, is dropped once the helper has it.

The plugin reads sysfs, procfs and cgroup files, which root may read by their modes; it writes a log
and a state file in directories of root; it connects to a socket of root; it receives the kernel's
uevents, which any process may. Its supervisor signals and reads processes of the same user. Nothing
of that needs a capability. One is kept for a metricsAddress with a port below 1024.

Python has no interface to capabilities, so this calls prctl(2) and capset(2) of the C library.
Capabilities belong to threads: it must be called before the first thread is started.
"""

import ctypes
import os
from typing import Any

_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h
_CAP_NET_BIND_SERVICE = 10  # linux/capability.h

KEPT = 1 << _CAP_NET_BIND_SERVICE
"""The bit set of capabilities that are kept where the process has them."""


class _Header(ctypes.Structure):
    """struct __user_cap_header_struct; pid 0 is the calling thread."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    """struct __user_cap_data_struct: 32 bits of each set."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def drop_capabilities(library: Any = None, *, kept: int = KEPT) -> str:  # noqa: ANN401 - ctypes
    """Drop all capabilities but those of the bit set, also for programs that are executed later.

    Return "", or the error of a call that was refused (a seccomp filter); the plugin works on with
    what it has.
    """
    library = library or ctypes.CDLL(None, use_errno=True)
    kept_halves = kept & 0xFFFFFFFF, kept >> 32
    header = _Header(_CAPABILITY_VERSION_3, 0)
    data = (_Data * 2)()
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return _error("prctl(PR_SET_NO_NEW_PRIVS)")
    if library.capget(ctypes.byref(header), data):
        return _error("capget")
    halves = tuple(zip(data, kept_halves, strict=True))
    if not any((half.permitted | half.inheritable) & ~kept_half for half, kept_half in halves):
        return ""  # the filter of the systemd unit may refuse the next call
    for half, kept_half in halves:
        half.permitted &= kept_half
        half.effective = half.permitted
        half.inheritable = 0
    if library.capset(ctypes.byref(header), data):
        return _error("capset")
    return ""


def _error(call: str) -> str:
    return f"{call}: {os.strerror(ctypes.get_errno())}"
