"""Memory of NUMA nodes and of the machine, as the kernel shows it."""

from pathlib import Path


def writable_mib(node: int) -> int:
    """Return how much can still be written on a node: free memory, and what the kernel drops."""
    text = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text(encoding="ascii")
    return writable_mib_of(text)


def writable_mib_of(meminfo: str) -> int:
    """Return the same from a node's meminfo, which has lines such as "Node 0 MemFree: 8 kB"."""
    words = (line.split() for line in meminfo.splitlines())
    kib = {name.rstrip(":"): int(value) for _, _, name, value, *_ in words}
    names = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
    return sum(kib[name] for name in names) >> 10


def total_mib() -> int:
    """Return the memory of the machine."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(text.split()[1]) >> 10
