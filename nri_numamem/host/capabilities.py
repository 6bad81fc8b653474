"""The capabilities of this process, by procfs. Source: capabilities(7), proc_pid_status(5)."""

import re
from pathlib import Path

from nri_numamem.host.sysfs import MachineError, read_optional

CAP_SYS_ADMIN = 21  # linux/capability.h

_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.ASCII | re.MULTILINE)


def has_capability(proc_root: Path, number: int) -> bool:
    """Return whether this process has a capability; not if procfs does not show it."""
    try:
        status = read_optional(f"{proc_root}/self/status") or ""
    except MachineError:
        return False
    found = _EFFECTIVE.search(status)
    return found is not None and bool(int(found[1], 16) >> number & 1)
