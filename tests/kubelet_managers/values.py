"""Values that the model, the replays and the comparison share.

Masks are integers, amounts MiB.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, TypeAlias

Amounts: TypeAlias = Mapping[str, int]
Others: TypeAlias = Mapping[str, Any]
"""The hints of the other providers: resource -> [[node ids], preferred]."""
Hint: TypeAlias = tuple[int | None, bool]
HintList: TypeAlias = tuple[Hint, ...]

TOPOLOGY, UNEXPECTED, PANIC = "TopologyAffinityError", "UnexpectedAdmissionError", "panic"
POOL = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an admission."""

    reason: str = ""
    """"" for an admitted pod."""
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Container name -> nodes, for an admitted pod."""
    groups: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """Node id -> its group and the free bytes of the group's nodes; see groups_of()."""


class RefusedError(Exception):
    """A pod is refused; the text is the reason."""


@dataclass
class Node:
    count: int
    cells: int
    free: dict[str, int]
    allocatable: Amounts


@cache
def bits(mask: int) -> tuple[int, ...]:
    return tuple(n for n in range(mask.bit_length()) if mask >> n & 1)


def mask_of(ids: Iterable[int]) -> int:
    return sum(1 << n for n in ids)


def groups_of(
    nodes: Mapping[int, tuple[tuple[int, ...], Amounts]],
) -> dict[int, tuple[Any, ...]]:
    """Return node id -> (group, free bytes of the group), from (group, free bytes of the node).

    How the bytes of a group are spread over its nodes depends on the order of allocations and
    releases, and only the sum decides whether a request fits.
    """
    return {
        node_id: (
            cells,
            {name: sum(nodes[n][1].get(name, 0) for n in cells) for name in sorted(free)},
        )
        for node_id, (cells, free) in nodes.items()
    }


def all_masks(ids: Iterable[int]) -> list[int]:
    ids = list(ids)
    return [mask_of(c) for size in range(1, len(ids) + 1) for c in combinations(ids, size)]


class Reusable:
    """What init containers leave to their pod: initContainersReusableMemory of the kubelet."""

    def __init__(self) -> None:
        self.amounts: dict[str, dict[tuple[int, str], int]] = {}

    def copy(self) -> "Reusable":
        twin = Reusable()
        twin.amounts = {uid: dict(found) for uid, found in self.amounts.items()}
        return twin

    def get(self, uid: str, mask: int, resource: str) -> int:
        return self.amounts.get(uid, {}).get((mask, resource), 0)

    def allocated(self, uid: str, kind: str, mask: int, request: Amounts) -> None:
        """Note an allocation; only the entries of its pod remain."""
        found = self.amounts.get(uid, {})
        self.amounts = {uid: found}
        for resource, size in request.items():
            old = found.get((mask, resource), 0)
            new = max(old, size) if kind == "init" else max(0, old - size)
            if kind == "init" or old:
                found[mask, resource] = new
