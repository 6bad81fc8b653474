"""Roots of Debian in which packages are installed, each a copy on write of a cached one.

For the oldest release the build root of the single executable file serves. mmdebstrap installs the
others at their first use, half a minute each.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest
from single_file import debian, interpreter

_BUILD_ROOT = interpreter.cache_root() / "root"
_ROOTS = interpreter.cache_root().with_name("debian_roots")


def _parameter(suite: str) -> object:
    is_possible = shutil.which("mmdebstrap") is not None and os.geteuid() == 0
    reason = "no mmdebstrap, or not root: run packaging/single_file/install-tools as root"
    return pytest.param(suite, id=suite, marks=pytest.mark.skipif(not is_possible, reason=reason))


OLDEST, NEWEST = _parameter(debian.ROOT_SUITE), _parameter("trixie")
RELEASES = (OLDEST, _parameter("bookworm"), NEWEST)
"""Test parameters for source()."""


def source(suite: str) -> Path:
    """Return the root of a release, which is installed at the first use. Raises BuildError."""
    if suite == debian.ROOT_SUITE and _BUILD_ROOT.exists():
        return _BUILD_ROOT
    root = _ROOTS / suite
    with interpreter.locked(_ROOTS):
        if not root.exists():
            debian.make_root(root, suite, ())
    return root


# $1: the source, $2: the packages, $3: an empty folder. The mounts last until the input ends. What
# is written is in memory: overlayfs cannot write to another overlayfs.
_MOUNT = """
mount -t tmpfs tmpfs "$3"
cd "$3"
mkdir lower upper work root
mount --bind "$1" lower
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
mount -t proc proc root/proc
mount --bind /dev root/dev
mount -t tmpfs tmpfs root/run
mount --bind "$2" root/mnt
echo mounted
exec cat
"""

# The databases and logs of dpkg and rpm change in any case. A build in the build root at the same
# time has files in /tmp.
_IGNORED = ("/var/lib/dpkg/", "/var/log/dpkg.log", "/var/cache/", "/var/lib/rpm", "/tmp/")


class DebianRoot:
    """A root with a folder of packages at /mnt, in a mount namespace of its own."""

    def __init__(self, suite: str, packages: Path, folder: Path) -> None:
        self._root = folder / "root"
        enter = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _MOUNT, "sh")
        self._mounts = subprocess.Popen(
            [*enter, source(suite), packages, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._mounts.stdout is not None
        if self._mounts.stdout.readline() != "mounted\n":
            self.__exit__()
            pytest.fail(f"the mounts failed with status {self._mounts.returncode}; see stderr")
        return self

    def __exit__(self, *exception: object) -> None:
        self._mounts.communicate()

    @property
    def path(self) -> Path:
        """The root, as attempt_outside() sees it."""
        return self._root

    def attempt(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the root; stdout has all that it prints."""
        return self.attempt_outside("chroot", str(self._root), *command)

    def attempt_outside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this host that sees the root; stdout has all that it prints."""
        return subprocess.run(
            ["nsenter", "--mount", f"--target={self._mounts.pid}", *command],
            env={"PATH": f"{os.defpath}:/usr/sbin:/sbin", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def run(self, *command: str) -> str:
        """Run a command that must succeed; return what it prints."""
        done = self.attempt(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def shell(self, script: str) -> str:
        """Run a shell script that must succeed."""
        return self.run("sh", "-ec", script)

    def files(self) -> set[str]:
        """Return one line for each file and directory: path, kind, mode, owner, size, target."""
        text = self.run("find", "/", "-xdev", "-printf", r"%p %y %m %U %l %s\n")
        lines = [line.rsplit(" ", 1) for line in text.splitlines()]
        return {
            # The size of a directory depends on its past.
            line if " d " in line else f"{line} {size}"
            for line, size in lines
            if not line.startswith(_IGNORED)
        }
