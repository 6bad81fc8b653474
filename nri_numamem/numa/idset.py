"""Immutable sets of small ids, and the kernel's list format ("0-1,3") as their text.

``NodeSet`` and ``CpuSet`` derive from ``IdSet``. A set wraps one integer whose bit N stands for
id N, so unions and comparisons cost the same for 2 ids and for 1,024. Sets have no order of
their own: callers sort with the key of the rule that they apply.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)

# "1022, 1023, ": a list that names each id has fewer. The limit bounds the work for other input.
_CHARACTERS_PER_ID = 6

_SHOWN_CHARACTERS = 60

# Linux can be built for 1,024 NUMA nodes (CONFIG_NODES_SHIFT=10), for 8,192 CPUs (x86
# CONFIG_NR_CPUS) and no more.
NODE_ID_LIMIT = 1024
CPU_ID_LIMIT = 8192


class IdSet:
    """An immutable set of ids, 0 <= id < LIMIT. ValueError for an id outside that range."""

    __slots__ = ("mask",)

    LIMIT: ClassVar[int]
    """One more than the highest id."""
    NAME: ClassVar[str]
    """What an id stands for, in error texts."""

    mask: int
    """Bit N is set when id N is a member."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        mask = 0
        for each in ids:
            if not 0 <= each < self.LIMIT:
                raise ValueError(f"{self.NAME} id {each} is not between 0 and {self.LIMIT - 1}")
            mask |= 1 << each
        object.__setattr__(self, "mask", mask)

    @classmethod
    def from_mask(cls, mask: int) -> Self:
        """Return the set whose members are the set bits of `mask`; ValueError out of range."""
        if mask < 0 or mask >> cls.LIMIT:
            raise ValueError(f"mask has bits outside the range of {cls.NAME} ids")
        new = cls.__new__(cls)
        object.__setattr__(new, "mask", mask)
        return new

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the kernel's list format, e.g. "0-1,3"; "" is the empty set.

        White space around the list and around its parts is allowed, as in a sysfs file. Raises
        ValueError for any other text. Source: Documentation/admin-guide/cgroup-v2.rst, cpuset.
        """
        if len(text) > cls.LIMIT * _CHARACTERS_PER_ID:
            raise ValueError(f"{_shorten(text)} is too long for a list of {cls.NAME}s")
        text = text.strip()
        mask = 0
        for part in text.split(",") if text else ():
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                raise ValueError(f"{_shorten(text)} is not a list of {cls.NAME}s such as 0-1,3")
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first or last >= cls.LIMIT:
                raise ValueError(f"{_shorten(part)} is not a range of {cls.NAME}s")
            mask |= (1 << (last + 1)) - (1 << first)
        return cls.from_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self).from_mask, (self.mask,))

    def __iter__(self) -> Iterator[int]:
        """Iterate the ids in ascending order."""
        remaining = self.mask
        while remaining:
            lowest = remaining & -remaining
            yield lowest.bit_length() - 1
            remaining ^= lowest

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, member: int) -> bool:
        return member >= 0 and bool(self.mask >> member & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __or__(self, other: Self) -> Self:
        return self.from_mask(self.mask | other.mask)

    def __and__(self, other: Self) -> Self:
        return self.from_mask(self.mask & other.mask)

    def __sub__(self, other: Self) -> Self:
        return self.from_mask(self.mask & ~other.mask)

    def issubset(self, other: Self) -> bool:
        """Return whether every member is in `other` too."""
        return self.mask & ~other.mask == 0

    def isdisjoint(self, other: Self) -> bool:
        """Return whether no member is in `other`."""
        return self.mask & other.mask == 0

    def __str__(self) -> str:
        """Format as the kernel does: ascending, runs of ids as ranges; parse() reads it back."""
        parts: list[str] = []
        remaining, offset = self.mask, 0
        while remaining:
            zeros = (remaining & -remaining).bit_length() - 1
            remaining, offset = remaining >> zeros, offset + zeros
            ones = (~remaining & (remaining + 1)).bit_length() - 1
            parts.append(f"{offset}" if ones == 1 else f"{offset}-{offset + ones - 1}")
            remaining, offset = remaining >> ones, offset + ones
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}..."


class NodeSet(IdSet):
    """An immutable set of NUMA node ids, 0 <= id < 1024; its text is that of `cpuset.mems`.

    Of two sets, the kubelet prefers the one with the "lower value": that with the smaller mask.
    """

    __slots__ = ()

    LIMIT: ClassVar[int] = NODE_ID_LIMIT
    NAME: ClassVar[str] = "NUMA node"


class CpuSet(IdSet):
    """An immutable set of CPU ids, 0 <= id < 8192; its text is that of `cpuset.cpus`, `cpulist`."""

    __slots__ = ()

    LIMIT: ClassVar[int] = CPU_ID_LIMIT
    NAME: ClassVar[str] = "CPU"
