"""The C library of the image: files of Debian's package libc6.

The program needs glibc and nothing else. The release is one that gets security updates; that of the
root in which the program is built does not any more.
"""

import fcntl
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from single_file import debian
from single_file.commands import BuildError, remove, run

SUITE = "trixie"
PACKAGE = "libc6"
MULTIARCH = f"{os.uname().machine}-linux-gnu"
FOLDER = f"usr/lib/{MULTIARCH}"
COPYRIGHT = f"usr/share/doc/{PACKAGE}/copyright"

# The dynamic linker, where programs expect it, and its file.
LINKERS = {
    "x86_64": ("usr/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2"),
    "aarch64": ("usr/lib/ld-linux-aarch64.so.1", "ld-linux-aarch64.so.1"),
}

# tests/packaging compares them with those that the program names.
LIBRARIES = (
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
)


def cache_root() -> Path:
    """Return the default of the cache: `${XDG_CACHE_HOME:-~/.cache}/nri_numamem/image`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nri_numamem" / "image"


def package(cache: Path, *, refresh: bool = False) -> Path:
    """Return Debian's package in a cache; download it if it is missing, or with `refresh`.

    apt checks the signatures. Raises BuildError.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = sorted(cache.glob(f"{PACKAGE}_*.deb"))
        if found and not refresh:
            return found[-1]
        with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as folder:
            get = debian.private_apt(Path(folder, "apt"), SUITE)
            run(*get, "download", PACKAGE, cwd=Path(folder))
            (downloaded,) = Path(folder).glob("*.deb")
            remove(*found)
            return downloaded.replace(cache / downloaded.name)


def files(deb: Path) -> Mapping[str, bytes]:
    """Return path in the image -> content of the files that the image takes from the package.

    Raises BuildError if the package lacks one.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data.tar")
        run("sh", "-ec", 'dpkg-deb --fsys-tarfile "$1" >"$2"', "sh", deb, data)
        with tarfile.open(fileobj=io.BytesIO(data.read_bytes())) as archive:
            members = {member.name.removeprefix("./"): member for member in archive}
            _link, linker = LINKERS[os.uname().machine]
            paths = [f"{FOLDER}/{name}" for name in (linker, *LIBRARIES)]
            return {path: _read(archive, members, path) for path in [*paths, COPYRIGHT]}


def _read(archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], path: str) -> bytes:
    member = members.get(path)
    file = archive.extractfile(member) if member is not None and member.isfile() else None
    if file is None:
        raise BuildError(f"{PACKAGE} of {SUITE} has no file {path}; see glibc.py")
    return file.read()
