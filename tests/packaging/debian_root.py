"""Roots of Debian in which packages are installed, each a copy on write of a cached one.

The build root of the single executable file serves, and the images of tests/e2e if they were built.
Nothing is downloaded.
"""

import os
import subprocess
from pathlib import Path
from typing import Self

import pytest
from single_file import debian, interpreter

from tests.e2e import image

BUILD_ROOT = interpreter.cache_root() / "root"


def _disk(suite: str) -> Path:
    return image.cache_root() / f"{suite}-{image.key()}" / "root.ext4"


def _parameter(suite: str, source: Path, *, needs_loop: bool) -> object:
    is_there = source.exists() and (Path("/dev/loop-control").exists() or not needs_loop)
    skip = pytest.mark.skipif(not is_there, reason=f"{source} is missing or cannot be mounted")
    return pytest.param(source, id=suite, marks=skip)


OLD_RELEASE = _parameter(debian.ROOT_SUITE, BUILD_ROOT, needs_loop=False)
NEW_RELEASE = _parameter("trixie", _disk("trixie"), needs_loop=True)
"""Test parameters: a directory, and a disk with an ext4 file system."""

# $1: the directory or disk, $2: the packages, $3: an empty folder. The mounts last until the input
# ends. What is written is in memory: overlayfs cannot write to another overlayfs.
_MOUNT = """
mount -t tmpfs tmpfs "$3"
cd "$3"
mkdir lower upper work root
if [ -f "$1" ]; then
  mount -t ext4 -o ro,loop "$1" lower
else
  mount --bind "$1" lower
fi
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

    def __init__(self, source: Path, packages: Path, folder: Path) -> None:
        self._root = folder / "root"
        enter = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", _MOUNT, "sh")
        self._mounts = subprocess.Popen(
            [*enter, source, packages, folder],
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
