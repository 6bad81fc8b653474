"""Paths of a host whose file system is below another directory, such as an image or /host."""

import os
import stat
from pathlib import Path

from nri_numamem.config.errors import UsageError

# The kernel's limit. Source: path_resolution(7).
LINK_LIMIT = 40

_ROOT = Path("/")


def below(root: Path, path: Path | str) -> Path:
    """Return where a path of the host is found; a relative path is one of this process.

    For the root / it is the path itself. Raises UsageError as resolved().
    """
    return Path(path) if root == _ROOT else resolved(root, path)


def resolved(root: Path, path: Path | str) -> Path:
    """Return a path below `root` without symbolic links, as they are resolved after chroot(2).

    An absolute target of a link begins at the root, and ".." does not leave it. Parts that do not
    exist are appended unchanged. Nothing may change the file system meanwhile: between this call
    and the use of the result, a directory could be replaced with a link to another place. Raises
    UsageError for more than LINK_LIMIT links, for a link that other users can replace, and for a
    directory that this user cannot read.
    """
    try:
        return _resolved(root, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; run as root") from error


def _resolved(root: Path, path: Path | str) -> Path:
    found: list[str] = []
    left = _parts(Path(path).absolute())
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            del found[-1:]
            continue
        place = root.joinpath(*found, part)
        if not place.is_symlink():
            found.append(part)
            continue
        links += 1
        if links > LINK_LIMIT:
            raise UsageError(f"{path}: more than {LINK_LIMIT} symbolic links; correct them")
        if not _is_private(place.parent, root):
            problem = "a symbolic link in a directory that other users can write"
            raise UsageError(f"{path}: {place} is {problem}; name a path without it")
        target = place.readlink()
        if target.is_absolute():
            found.clear()
        left += _parts(target)
    return root.joinpath(*found)


def _parts(path: Path) -> list[str]:
    """Return the parts of a path in reverse order, without the root."""
    return [part for part in reversed(path.parts) if part != "/"]


def _is_private(directory: Path, root: Path) -> bool:
    """Return whether only root, the owner of the root directory and this user can make links.

    The kernel has a similar rule (fs.protected_symlinks), which readlink(2) does not apply.
    """
    found = directory.stat()
    owners = (0, os.geteuid(), root.stat().st_uid)
    return found.st_uid in owners and not found.st_mode & stat.S_IWOTH
