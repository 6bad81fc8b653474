"""Sets of NUMA nodes, and their one text form, the kernel's list ("0-1,3").

A ``NodeSet`` is immutable, hashable and ordered by nothing: callers sort with the keys of the
rule that they apply. It wraps one integer whose bit N stands for node N, so unions and
comparisons cost the same for 2 nodes and for 1,024.
"""

import re
from collections.abc import Iterable, Iterator

# Linux can be built for 1,024 NUMA nodes (CONFIG_NODES_SHIFT=10) and no more.
NODE_ID_LIMIT = 1024

_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


class NodeSet:
    """An immutable set of NUMA node ids, 0 <= id < 1024.

    Raises ValueError for an id outside that range.
    """

    __slots__ = ("mask",)

    mask: int
    """Bit N is set when node N is a member; comparing masks gives kubelet's "lower value"."""

    def __init__(self, node_ids: Iterable[int] = ()) -> None:
        mask = 0
        for node_id in node_ids:
            if not 0 <= node_id < NODE_ID_LIMIT:
                raise ValueError(f"NUMA node id {node_id} is not between 0 and {NODE_ID_LIMIT - 1}")
            mask |= 1 << node_id
        object.__setattr__(self, "mask", mask)

    @classmethod
    def from_mask(cls, mask: int) -> "NodeSet":
        """Return the set whose members are the set bits of `mask`; ValueError out of range."""
        if mask < 0 or mask >> NODE_ID_LIMIT:
            raise ValueError("mask has bits outside the range of NUMA node ids")
        new = cls.__new__(cls)
        object.__setattr__(new, "mask", mask)
        return new

    @classmethod
    def parse(cls, text: str) -> "NodeSet":
        """Parse the kernel's list format, e.g. "0-1,3"; "" is the empty set.

        Surrounding white space is allowed, as in a sysfs file. Raises ValueError otherwise.
        Source: Documentation/admin-guide/cgroup-v2.rst, cpuset.mems.
        """
        text = text.strip()
        mask = 0
        for part in text.split(",") if text else ():
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                raise ValueError(f"{text!r} is not a list of NUMA nodes such as 0-1,3")
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first or last >= NODE_ID_LIMIT:
                raise ValueError(f"{part!r} is not a range of NUMA nodes")
            mask |= (1 << (last + 1)) - (1 << first)
        return cls.from_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"NodeSet is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"NodeSet is immutable: cannot delete {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return (NodeSet.from_mask, (self.mask,))

    def __iter__(self) -> Iterator[int]:
        """Iterate the ids in ascending order."""
        rest = self.mask
        while rest:
            lowest = rest & -rest
            yield lowest.bit_length() - 1
            rest ^= lowest

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, node_id: int) -> bool:
        return node_id >= 0 and bool(self.mask >> node_id & 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __or__(self, other: "NodeSet") -> "NodeSet":
        return NodeSet.from_mask(self.mask | other.mask)

    def __and__(self, other: "NodeSet") -> "NodeSet":
        return NodeSet.from_mask(self.mask & other.mask)

    def __sub__(self, other: "NodeSet") -> "NodeSet":
        return NodeSet.from_mask(self.mask & ~other.mask)

    def issubset(self, other: "NodeSet") -> bool:
        """Tell whether every member is in `other` too."""
        return self.mask & ~other.mask == 0

    def isdisjoint(self, other: "NodeSet") -> bool:
        """Tell whether no member is in `other`."""
        return self.mask & other.mask == 0

    def __str__(self) -> str:
        """Format for `cpuset.mems`: ascending, neighbours joined to ranges; parse() reads it."""
        parts: list[str] = []
        rest, offset = self.mask, 0
        while rest:
            zeros = (rest & -rest).bit_length() - 1
            rest, offset = rest >> zeros, offset + zeros
            ones = (~rest & (rest + 1)).bit_length() - 1
            parts.append(f"{offset}" if ones == 1 else f"{offset}-{offset + ones - 1}")
            rest, offset = rest >> ones, offset + ones
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"NodeSet.parse({str(self)!r})"
