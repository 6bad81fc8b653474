"""Decodes the CPU, memory and hugepage limits of the runtime's resource messages.

The users of a cluster choose some of these values, so the work for them is bounded: more entries
than a kernel has page sizes are ignored, and amounts are clamped to signed 64 bits, with which the
engine and the state file count.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.numa import format_page_size, parse_page_size
from nri_numamem.numa.quantity import MAX_BYTES

# Far more than the page sizes of a kernel.
_ENTRIES_LIMIT = 64

# Files of the hugetlb controller of cgroup v2, as in the keys of `unified`, for every page size
# that a kernel may have. Keys such as "hugetlb.2MB.rsvd.max" limit reservations only.
_UNIFIED_KEYS = {f"hugetlb.{format_page_size(1 << bits)}.max": 1 << bits for bits in range(12, 41)}

# The kernel accepts white space around a number; 2^64 has 20 digits.
_LIMIT = re.compile(r"\s{0,8}(\d{1,20})\s{0,8}", re.ASCII)


def memory_limit(resources: api.LinuxResources) -> int | None:
    """Return the memory limit in bytes; None without one.

    Absent, zero (the CRI converters always send the wrapper) and -1 (OCI's "unlimited") are none.
    """
    limit = resources.memory.limit.value
    return limit if limit > 0 else None


def cpu_limit_millicores(cpu: api.LinuxCPU) -> int | None:
    """Return the CPU limit in thousandths of a CPU; None without a quota (0 or -1)."""
    quota, period = cpu.quota.value, cpu.period.value
    return min(quota * 1000 // period, MAX_BYTES) if quota > 0 and period > 0 else None


def hugepage_limits(entries: Sequence[api.HugepageLimit]) -> Mapping[int, int] | None:
    """Return page size in bytes -> limit in bytes; None if the runtime hides the limits.

    The kubelet sends every page size of the host, so an empty list means that they are hidden.
    """
    if not entries:
        return None
    limits: dict[int, int] = {}
    for entry in islice(entries, _ENTRIES_LIMIT):
        try:
            limits[parse_page_size(entry.page_size)] = min(entry.limit, MAX_BYTES)
        except ValueError:
            continue  # not a page size of Linux; the kernel would refuse it, too
    return limits


def unified_hugepages(unified: Mapping[str, str]) -> Mapping[int, int]:
    """Return page size in bytes -> limit in bytes of the limits in cgroup v2's `unified`."""
    limits: dict[int, int] = {}
    if not unified:
        return limits
    for key, size_bytes in _UNIFIED_KEYS.items():
        # Not get(): protobuf's map adds a missing key where its type has a default.
        if key in unified:
            found = _LIMIT.fullmatch(unified[key])
            if found is not None:  # else "max", or a text that the kernel refuses
                limits[size_bytes] = min(int(found[1]), MAX_BYTES)
    return limits
