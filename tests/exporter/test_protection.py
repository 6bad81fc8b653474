"""A process that other processes of the same user cannot read."""

import os
import subprocess
import sys

import pytest

from nri_numamem.exporter.protection import hide_from_other_processes

# All without capabilities, as in a pod. This one reads a file of its own by /proc, as the client's
# certificate is read, and waits for the end.
HIDDEN = """
import os, sys
from nri_numamem.daemon.privileges import drop_capabilities
assert drop_capabilities() == ""
from nri_numamem.exporter.protection import hide_from_other_processes
assert hide_from_other_processes()
descriptor = os.memfd_create("x")
os.write(descriptor, b"own")
print(open(f"/proc/self/fd/{descriptor}").read(), flush=True)
sys.stdin.read()
"""

READER = """
import os, sys
from nri_numamem.daemon.privileges import drop_capabilities
assert drop_capabilities() == ""
try:
    os.listdir(f"/proc/{sys.argv[1]}/root")
except PermissionError:
    print("refused")
else:
    print("readable")
"""

READABLE = HIDDEN.replace("hide_from_other_processes()", "True")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to drop")
@pytest.mark.parametrize(("program", "found"), [(HIDDEN, "refused"), (READABLE, "readable")])
def test_another_process_without_capabilities(program: str, found: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "own\n"
        done = subprocess.run(
            [sys.executable, "-c", READER, str(process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        process.communicate()
    assert done.stdout.strip() == found, done.stderr


def test_a_kernel_that_refuses() -> None:
    class Refusing:
        def prctl(self, option: int, value: int, *unused: int) -> int:
            assert (option, value, *unused) == (4, 0, 0, 0, 0)
            return -1

    assert not hide_from_other_processes(Refusing())
