"""No free process ids for chosen processes: in a pids cgroup, or by a program that is told to fail.

A cgroup is the real thing, and needs root and a writable hierarchy. Elsewhere the test's program
refuses forks and threads itself while a file exists; see ``tests/daemon/programs/limited.py``.
"""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tests.simulated_host import wait_for


class PidsLimit(Protocol):
    """Process ids of some processes, which a test can use up."""

    @property
    def arguments(self) -> tuple[str, str]:
        """Arguments of ``limited.py``: the cgroup that it enters, and the file; "" for none."""

    def exhaust(self, *pids: int) -> None:
        """Keep these processes, and those that enter later, from starting processes or threads."""

    def free(self) -> None:
        """Allow it again."""

    def refusals(self) -> int:
        """Return how many starts were refused."""


class CgroupLimit:
    """A cgroup of the controller pids, in a hierarchy of either version."""

    def __init__(self, parent: Path) -> None:
        self._path = parent / f"numamem-test-{uuid.uuid4()}"
        self._path.mkdir()

    @property
    def arguments(self) -> tuple[str, str]:
        return str(self._path), ""

    def exhaust(self, *pids: int) -> None:
        for pid in pids:
            (self._path / "cgroup.procs").write_text(str(pid))
        (self._path / "pids.max").write_text("1")
        # A shell in the cgroup cannot run a program, except in its own place.
        code = f"echo $$ > {self._path}/cgroup.procs; /bin/true; exit 0"
        done = subprocess.run(["sh", "-c", code], capture_output=True, check=False)
        assert done.returncode != 0

    def free(self) -> None:
        (self._path / "pids.max").write_text("max")

    def refusals(self) -> int:
        return int((self._path / "pids.events").read_text().split()[1])

    def close(self) -> None:
        self.free()

        def is_removed() -> bool:
            with contextlib.suppress(OSError):  # processes of it still end
                self._path.rmdir()
            return not self._path.exists()

        wait_for(is_removed)


class InjectedLimit:
    """A file; while it exists, programs that know it refuse, and append a byte to it each time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def arguments(self) -> tuple[str, str]:
        return "", str(self._path)

    def exhaust(self, *_pids: int) -> None:
        self._path.touch()

    def free(self) -> None:
        self._path.unlink()

    def refusals(self) -> int:
        return self._path.stat().st_size


def pids_hierarchy() -> Path | None:
    """Return a directory in which cgroups with the controller pids can be made, if there is one."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, mount, kind, options, *_ = line.split()
        path = Path(mount)
        is_v1 = kind == "cgroup" and "pids" in options.split(",")
        if is_v1 and os.access(path, os.W_OK):
            return path
        control = path / "cgroup.subtree_control"
        if kind == "cgroup2" and os.access(control, os.W_OK) and "pids" in control.read_text():
            return path
    return None


@contextlib.contextmanager
def cgroup_limit() -> Iterator[CgroupLimit | None]:
    """Yield a cgroup for the time of a test; None where none can be made."""
    parent = pids_hierarchy()
    try:
        limit = None if parent is None else CgroupLimit(parent)
    except OSError:  # a hierarchy that is mounted read-only
        limit = None
    try:
        yield limit
    finally:
        if limit is not None:
            limit.close()
