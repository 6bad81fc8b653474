"""Memory policies that the kernel lacks; with one of them the creation of a container fails.

Source: the kernel's mm/mempolicy.c. MPOL_PREFERRED_MANY came with Linux 5.15, and
MPOL_WEIGHTED_INTERLEAVE with 6.9, together with its weights in sysfs.
"""

import re
from pathlib import Path

from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import PolicyMode

WEIGHTS = "kernel/mm/mempolicy/weighted_interleave"

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
_PREFERRED_MANY_SINCE = (5, 15)


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
