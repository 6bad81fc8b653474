"""The root file system of the image: the single executable file, the C library, and some files."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image import glibc

PROGRAM = "usr/bin/nri-numamem"
LICENSE = "usr/share/common-licenses/LGPL-2.1"
"""The C library's, on every Debian host; the program prints the others with --licenses."""

_USERS = "root:x:0:0:root:/:/sbin/nologin\n"
_GROUP = "root:x:0:\n"
# For the name of a host in metricsAddress.
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"

# Runtimes mount file systems on them.
_EMPTY = ("dev", "etc/nri-numamem", "proc", "run", "sys", "var/lib/nri-numamem")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a symbolic link if `target` is set, or else a directory without `content`."""

    path: str
    mode: int
    content: bytes | None = None
    target: str = ""


def entries(program: Path, library: Mapping[str, bytes]) -> Sequence[Entry]:
    """Return the content of the root, each directory before what is in it.

    `library` is glibc.files().
    """
    link, linker = glibc.LINKERS[os.uname().machine]
    links = {
        "lib": "usr/lib",
        "lib64": "usr/lib64",
        "var/run": "/run",
        link: os.path.relpath(f"{glibc.FOLDER}/{linker}", Path(link).parent),
    }
    texts = {
        "etc/passwd": _USERS.encode(),
        "etc/group": _GROUP.encode(),
        "etc/nsswitch.conf": _NSSWITCH.encode(),
        LICENSE: Path("/", LICENSE).read_bytes(),
    }
    programs = {PROGRAM, f"{glibc.FOLDER}/{linker}", f"{glibc.FOLDER}/libc.so.6"}
    found = {path: Entry(path, 0o777, target=target) for path, target in links.items()}
    for path, content in {PROGRAM: program.read_bytes(), **texts, **library}.items():
        found[path] = Entry(path, 0o755 if path in programs else 0o644, content)
    for path in (*_EMPTY, "usr/lib64"):
        found[path] = Entry(path, 0o755)
    found["tmp"] = Entry("tmp", 0o1777)
    for path in list(found):
        for parent in Path(path).parents[:-1]:
            found.setdefault(str(parent), Entry(str(parent), 0o755))
    return [found[path] for path in sorted(found)]


def write(root: Path, content: Sequence[Entry]) -> None:
    """Write the root into a folder, with the owner who runs this."""
    for entry in content:
        path = root / entry.path
        if entry.target:
            path.symlink_to(entry.target)
        elif entry.content is None:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(entry.mode)
        else:
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
