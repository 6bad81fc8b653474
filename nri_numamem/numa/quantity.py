"""Amounts of memory as text: Kubernetes quantities, resource names, hugepage sizes.

A quantity is a decimal number with a suffix ("1.5Gi", "100M", "12e6"). Inside this program an
amount is a whole number of bytes, an ``int``; text appears only in input and output. All
arithmetic uses whole numbers, never floats. This module uses no machines, pods or policies.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)

MEMORY = "memory"
HUGEPAGES_PREFIX = "hugepages-"

# Kubernetes stores an amount as int64; the kubelet rejects a larger request.
MAX_BYTES = 2**63 - 1

# The longest useful text has a few dozen characters; the limit bounds the work for other input.
_MAX_TEXT = 64
# 10^100 is far beyond int64 on one side and below one byte on the other.
_MAX_EXPONENT = 100

_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# The unit of parse_exact() is so small that every valid text is a whole number of units.
EXACT_ONE: int = 10 ** (_MAX_TEXT + _MAX_EXPONENT)
_FACTORS = {suffix: EXACT_ONE * 1024**power for power, suffix in enumerate(_BINARY_SUFFIXES)} | {
    "n": EXACT_ONE // 10**9,
    "u": EXACT_ONE // 10**6,
    "m": EXACT_ONE // 10**3,
    "k": EXACT_ONE * 10**3,
    "M": EXACT_ONE * 10**6,
    "G": EXACT_ONE * 10**9,
    "T": EXACT_ONE * 10**12,
    "P": EXACT_ONE * 10**15,
    "E": EXACT_ONE * 10**18,
}
_QUANTITY = re.compile(
    r"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)", re.ASCII
)
_PAGE_SIZE = re.compile(r"(\d{1,10})([KMGT]?)B", re.ASCII)


def parse_quantity(quantity: str | int) -> int:
    """Return the bytes of a Kubernetes quantity, or of a plain number.

    Raises ValueError if it is not a quantity, negative, not a whole number ("100m"), or larger than
    an int64. Source: apimachinery, resource.Quantity; the kubelet requires an exact int64.
    """
    if isinstance(quantity, int) and not isinstance(quantity, bool):
        value, shown = quantity * EXACT_ONE, _shorten(quantity)
    else:
        # Other values of YAML (true, 1.5, a list) are parsed as text too.
        value, shown = parse_exact(str(quantity)), repr(quantity)
    if value < 0:
        raise ValueError(f"{shown} is negative; an amount of memory is at least 0")
    if value > MAX_BYTES * EXACT_ONE:
        raise ValueError(f"{shown} is too large; the largest amount is {MAX_BYTES} bytes")
    size_bytes, remainder = divmod(value, EXACT_ONE)
    if remainder:
        raise ValueError(f"{shown} is not a whole number of bytes; use a suffix such as Mi or Gi")
    return size_bytes


def _shorten(number: int) -> str:
    """Return an integer as text, but not thousands of digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def parse_exact(text: str) -> int:
    """Return the exact value of a quantity in units of 1 / EXACT_ONE; ValueError for other text.

    The result need not be a whole number of bytes, as for the CPU amount "1500m". Exponents
    beyond 100 count as 100.
    """
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:20]!r}... is not a quantity; it has {len(text)} characters")
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a quantity such as 512Mi, 1.5Gi, 100M or 1048576")
    sign, number, exponent, suffix = found.groups()
    if exponent is not None:
        power = max(-_MAX_EXPONENT, min(int(exponent), _MAX_EXPONENT))
        factor = EXACT_ONE * 10**power if power > 0 else EXACT_ONE // 10**-power
    else:
        factor = _FACTORS[suffix or ""]
    whole, _, decimals = number.partition(".")
    value: int = int(whole + decimals) * factor // 10 ** len(decimals)
    return -value if sign == "-" else value


def format_quantity(size_bytes: int) -> str:
    """Return the canonical binary-SI text: the largest suffix that leaves a whole number.

    Source: apimachinery, resource.Quantity with format BinarySI ("3Gi", "1025Mi", "12", "0").
    """
    power = 0
    while size_bytes and size_bytes % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        size_bytes //= 1024
        power += 1
    return f"{size_bytes}{_BINARY_SUFFIXES[power]}"


def humanize_bytes(size_bytes: int, *, round_up: bool = False) -> str:
    """Return at most two decimals and a binary suffix, for people: 134987354112 -> "125.71Gi".

    The result is rounded down, or up if `round_up` is true: free memory is never shown larger
    than it is, and a request never smaller.
    """
    power = min((max(size_bytes, 1).bit_length() - 1) // 10, len(_BINARY_SUFFIXES) - 1)
    size_bytes *= 100
    hundredths = -(-size_bytes >> 10 * power) if round_up else size_bytes >> 10 * power
    whole, part = divmod(hundredths, 100)
    decimals = f".{part:02}".rstrip("0") if part else ""
    return f"{whole}{decimals}{_BINARY_SUFFIXES[power]}"


def is_memory_resource(resource: str) -> bool:
    """Return whether the Memory Manager tracks the resource: `memory` or `hugepages-<size>`."""
    return resource == MEMORY or resource.startswith(HUGEPAGES_PREFIX)


@lru_cache(maxsize=64)  # a host has a handful of page sizes, and each container names them all
def hugepages_resource(page_size_bytes: int) -> str:
    """Return the resource name of a page size: 2097152 -> "hugepages-2Mi"."""
    return HUGEPAGES_PREFIX + format_quantity(page_size_bytes)


def hugepages_page_size(resource: str) -> int:
    """Return the page size in bytes of "hugepages-2Mi"; ValueError for any other resource.

    Other spellings of the size ("hugepages-2048Ki") are valid too; hugepages_resource() returns
    the canonical one.
    """
    if not resource.startswith(HUGEPAGES_PREFIX):
        raise ValueError(f"{resource!r} is not a hugepage resource such as hugepages-2Mi")
    return _check_page_size(resource, parse_quantity(resource.removeprefix(HUGEPAGES_PREFIX)))


def canonical_resource(resource: str) -> str:
    """Return `memory` or the hugepage resource in its canonical spelling.

    Raises ValueError for anything else.
    """
    return resource if resource == MEMORY else hugepages_resource(hugepages_page_size(resource))


# A host has two or three sizes, and each container names all of them.
@lru_cache(maxsize=32)
def parse_page_size(text: str) -> int:
    """Return the bytes of a page size as in cgroup files and OCI specs: "2MB" is 2097152.

    Raises ValueError otherwise. Source: the kernel's hugetlb_cgroup file names; suffixes there
    are powers of 1024.
    """
    found = _PAGE_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:_MAX_TEXT]!r} is not a page size such as 64KB, 2MB or 1GB")
    return _check_page_size(text, int(found[1]) * 1024 ** " KMGT".index(found[2] or " "))


def _check_page_size(text: str, size_bytes: int) -> int:
    # Page sizes are powers of two, and 2^50 bytes is beyond every architecture.
    if size_bytes.bit_count() != 1 or size_bytes > 2**50:
        raise ValueError(f"{text!r} does not name a page size; page sizes are powers of two")
    return size_bytes


def format_page_size(size_bytes: int) -> str:
    """Return the page size as in cgroup files and OCI specs; parse_page_size() parses it.

    Source: kernel mm/hugetlb_cgroup.c, mem_fmt (KB, MB and GB only); below 1 KiB plain bytes.
    """
    for suffix, power in (("GB", 3), ("MB", 2), ("KB", 1)):
        if size_bytes >= 1024**power:
            return f"{size_bytes // 1024**power}{suffix}"
    return f"{size_bytes}B"


def sum_amounts(amounts: Iterable[tuple[_K, int]]) -> dict[_K, int]:
    """Return key -> sum of its amounts, in the order in which the keys come first."""
    sums: dict[_K, int] = {}
    for key, amount in amounts:
        sums[key] = sums.get(key, 0) + amount
    return sums


def sum_mappings(several: Iterable[Mapping[_K, int]]) -> dict[_K, int]:
    """Return key -> sum of its amounts in all mappings, in the order of ``sum_amounts``."""
    return sum_amounts(chain.from_iterable(each.items() for each in several))
