"""The memory that the kernel could give to new pages, per NUMA node.

Source: kernel drivers/base/node.c, node_read_meminfo; mm/show_mem.c, si_mem_available, which counts
page cache and reclaimable slab as available.
"""

import re
from pathlib import Path

from nri_numamem.host.sysfs import node_directories, read_optional

_LINE = re.compile(r"^Node \d+ ([A-Za-z()]+):\s+(\d{1,16}) kB$", re.ASCII | re.MULTILINE)
_AVAILABLE = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")


def read_available(sysfs_root: Path) -> dict[int, int]:
    """Return NUMA node id -> bytes that are free or reclaimable.

    Empty without NUMA in the kernel. Raises MachineError for a file that cannot be read.
    """
    found: dict[int, int] = {}
    for node_id, directory in node_directories(sysfs_root).items():
        amounts = dict(_LINE.findall(read_optional(f"{directory}/meminfo") or ""))
        if "MemFree" in amounts:
            found[node_id] = sum(int(amounts.get(name, 0)) for name in _AVAILABLE) * 1024
    return found
