"""The memory policies that can be set on a host: what the kernel lacks, what an OCI runtime sets.

An OCI runtime (runc, crun) shows the policies that it can set by its command `features`. An older
one has no `linux.memoryPolicy` in its output, and ignores the same key of a container without an
error. With a mode that the kernel lacks, the creation of a container fails.

Sources: the OCI runtime specification 1.3, features-linux.md, memoryPolicy; the kernel's
mm/mempolicy.c. MPOL_PREFERRED_MANY came with Linux 5.15, and MPOL_WEIGHTED_INTERLEAVE with 6.9,
together with its weights in sysfs.
"""

import errno
import json
import os
import re
from pathlib import Path

from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import PolicyMode

PROGRAMS = ("runc", "crun")

_DIRECTORIES = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/usr/libexec/crio",
    "/opt/bin",
)

# A program takes some 20 ms; on a busy host many times that.
_TIMEOUT_S = 20.0


# The host has no free process id, memory or file descriptor at this moment.
_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
WEIGHTS = "kernel/mm/mempolicy/weighted_interleave"
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
_PREFERRED_MANY_SINCE = (5, 15)


class FeaturesError(Exception):
    """The features of an OCI runtime cannot be read; the text is one line."""

    def __init__(self, text: str, *, is_shortage: bool = False) -> None:
        super().__init__(text)
        self.is_shortage = is_shortage
        """Whether the program could not be started, and perhaps can be soon."""


def find_program(name: str, directories: tuple[str, ...] = _DIRECTORIES) -> Path | None:
    """Return the first executable of this name; None if there is none."""
    paths = (Path(directory, name) for directory in directories)
    # The first check raises no error where the plugin may not look.
    return next((path for path in paths if os.access(path, os.X_OK) and path.is_file()), None)


def read_policy_modes(program: Path, timeout_s: float = _TIMEOUT_S) -> frozenset[str]:
    """Return the modes that the program sets, such as "MPOL_BIND"; none if it is too old.

    Runs `PROGRAM features`, so only a thread without other work may call this. Raises
    FeaturesError.
    """
    import subprocess  # noqa: PLC0415 - only where memory policies are switched on

    try:
        done = subprocess.run(  # noqa: S603 - a fixed word
            [program, "features"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FeaturesError(f"{program} features takes more than {timeout_s:g} s") from None
    except OSError as error:
        text = f"{program}: {error.strerror or error}"
        raise FeaturesError(text, is_shortage=error.errno in _SHORTAGES) from error
    if done.returncode:
        raise FeaturesError(f"{program} features exits with status {done.returncode}")
    try:
        document = json.loads(done.stdout)
    except (ValueError, RecursionError):
        raise FeaturesError(f"{program} features prints no JSON") from None
    found = document
    for key in ("linux", "memoryPolicy", "modes"):
        found = found.get(key) if isinstance(found, dict) else None
    return frozenset(word for word in found or () if isinstance(word, str))


def missing_modes(roots: HostRoots) -> frozenset[PolicyMode]:
    """Return the modes that the kernel lacks; a release that cannot be read counts as new."""
    missing = set[PolicyMode]()
    if not (roots.sysfs / WEIGHTS).is_dir():
        missing.add(PolicyMode.WEIGHTED_INTERLEAVE)
    found = _RELEASE.match(_release(roots.proc))
    if found is not None and tuple(map(int, found.groups())) < _PREFERRED_MANY_SINCE:
        missing.add(PolicyMode.PREFERRED_MANY)
    return frozenset(missing)


def _release(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/osrelease").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
