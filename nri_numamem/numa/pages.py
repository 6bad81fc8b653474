"""The resident memory of a container per NUMA node, by kind of page.

Each kind is a mapping of node id to bytes. What a page is counts, not where it was allocated:
anonymous, hugetlb and shared memory belong to the container. Page cache follows the process that
read the file first, is shared, and is given back under pressure, so it is never *remote*.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import sum_mappings


@dataclass(frozen=True, slots=True)
class Pages:
    """Node id -> bytes of each kind."""

    anonymous: Mapping[int, int] = field(default_factory=dict)
    """With cgroup v1 also shared memory."""
    shared: Mapping[int, int] = field(default_factory=dict)
    """Of tmpfs and shared memory; unknown, and empty, with cgroup v1."""
    hugetlb: Mapping[int, int] = field(default_factory=dict)
    cache: Mapping[int, int] = field(default_factory=dict)
    """Of files on disks."""

    @property
    def private(self) -> dict[int, int]:
        """Return node id -> bytes of anonymous and hugetlb pages."""
        return summed((self.anonymous, self.hugetlb))

    @property
    def own(self) -> dict[int, int]:
        """Return node id -> bytes of all pages but page cache."""
        return summed((self.anonymous, self.shared, self.hugetlb))

    @property
    def charged_bytes(self) -> int:
        """Return the bytes that count in the memory limit and are not page cache."""
        return sum(self.anonymous.values()) + sum(self.shared.values())

    def remote(self, nodes: NodeSet) -> dict[int, int]:
        """Return node id -> bytes on other nodes than `nodes`, without page cache."""
        return {node: size for node, size in self.own.items() if size and node not in nodes}


def summed(amounts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return node id -> sum, in the order of the ids."""
    return dict(sorted(sum_mappings(amounts).items()))
