"""The capabilities that remain, in a process of the test's own."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys

import pytest

from nri_numamem.daemon.privileges import KEPT, drop_capabilities
from nri_numamem.host.capabilities import CAP_SYS_ADMIN

SHOW = (
    "from nri_numamem.daemon.privileges import drop_capabilities as drop\n"
    "import subprocess\n"
    "print(repr(drop()), repr(drop()))\n"
    "print(open('/proc/self/status').read())\n"
    "print(subprocess.run(['cat', '/proc/self/status'], capture_output=True, text=True).stdout)\n"
)
DROP_ONE = """
from nri_numamem.daemon.privileges import drop_capabilities
before = open("/proc/self/status").read()
drop_capabilities(kept=~(1 << 21))
print(before, open("/proc/self/status").read())
"""


def test_only_what_is_needed_remains_also_in_programs_that_are_executed() -> None:
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "'' ''"
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        masks = [int(line.split()[1], 16) for line in lines if line.startswith(f"{name}:")]
        assert len(masks) == 2
        assert all(mask & ~KEPT == 0 for mask in masks), name
    if os.geteuid() == 0:
        assert f"CapEff:\t{KEPT:016x}" in lines


class Refusing:
    """A C library whose call of this name is refused."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.permitted = 1 << CAP_SYS_ADMIN
        self.calls: list[str] = []

    def prctl(self, _option: int, _value: int, *_unused: int) -> int:
        return self._call("prctl")

    def capget(self, _header: object, data: object) -> int:
        first = ctypes.cast(data, ctypes.POINTER(ctypes.c_uint32))  # type: ignore[arg-type]
        first[1] = self.permitted
        return self._call("capget")

    def capset(self, _header: object, _data: object) -> int:
        return self._call("capset")

    def _call(self, name: str) -> int:
        self.calls.append(name)
        ctypes.set_errno(errno.EPERM)
        return -1 if name == self._name else 0


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("prctl", ["prctl"]),
        ("capget", ["prctl", "capget"]),
        ("capset", ["prctl", "capget", "capset"]),
        ("", ["prctl", "capget", "capset"]),
    ],
)
def test_a_refused_call_is_returned(name: str, calls: list[str]) -> None:
    library = Refusing(name)
    problem = drop_capabilities(library)
    assert problem.startswith(name)
    assert problem.endswith("Operation not permitted") == bool(name)
    assert library.calls == calls


def test_nothing_is_called_where_there_is_nothing_to_drop() -> None:
    """The filter of the systemd unit refuses capset."""
    library = Refusing("capset")
    assert drop_capabilities(library, kept=1 << CAP_SYS_ADMIN) == ""
    assert library.calls == ["prctl", "capget"]
    assert drop_capabilities(library, kept=~(1 << CAP_SYS_ADMIN)).startswith("capset")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities")
def test_one_capability_is_dropped_and_the_others_stay() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROP_ONE], capture_output=True, text=True, check=True
    )
    before, after = (
        int(line.split()[1], 16) for line in done.stdout.splitlines() if line.startswith("CapEff:")
    )
    assert before >> CAP_SYS_ADMIN & 1
    assert after == before & ~(1 << CAP_SYS_ADMIN)
