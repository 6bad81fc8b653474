"""A model of the kubelet's Memory Manager by brute force.

Source: kubelet memorymanager, policy_static.go.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.kubelet_managers.answers import KubeletState
from tests.kubelet_managers.differences import Difference
from tests.kubelet_managers.lives import Life
from tests.kubelet_managers.values import (
    PANIC,
    UNEXPECTED,
    Amounts,
    Hint,
    HintList,
    Node,
    RefusedError,
    Reusable,
    all_masks,
    bits,
    groups_of,
    mask_of,
)


class MemoryModel:
    """The kubelet's Memory Manager with the rules in `differences` replaced by the plugin's."""

    def __init__(
        self,
        life: Life,
        state: KubeletState,
        reusable: Reusable,
        allocatable: Mapping[int, Amounts],
        differences: frozenset[Difference] = frozenset(),
        *,
        our_free: Mapping[int, Amounts] | None = None,
        previous: Mapping[str, int] | None = None,
    ) -> None:
        self.life = life
        self.differences = differences
        self.reusable = reusable.copy()
        spread = {} if our_free is None or Difference.EXACT_RELEASE not in differences else our_free
        self.nodes = {
            n: Node(node.count, mask_of(node.cells), dict(spread.get(n, node.free)), allocatable[n])
            for n, node in state.nodes.items()
        }
        self.masks = all_masks(self.nodes)
        self.rows = {node["id"]: node["distances"] for node in life["nodes"]}
        self.previous = (previous or {}) if Difference.PREVIOUS_NODES in differences else {}
        self.preferred_mask = 0
        self.held: dict[str, tuple[str, int, dict[str, int]]] = {}
        """Container name -> kind, nodes, and MiB of each block, for the pod that is admitted."""
        self.charges: dict[tuple[str, str], dict[int, int]] = {}
        """Container name and resource -> node id -> MiB that the block was charged there."""

    def has(self, difference: Difference) -> bool:
        return difference in self.differences

    def groups(self) -> dict[int, tuple[Any, ...]]:
        return groups_of({n: (bits(node.cells), node.free) for n, node in self.nodes.items()})

    def table(self, node: Node, resource: str, *, free: bool) -> int:
        found = node.free if free else node.allocatable
        if resource not in found and not self.has(Difference.MISSING_PAGE_SIZE):
            raise RefusedError(PANIC)
        return found.get(resource, 0)

    def total(self, mask: int, resource: str, *, free: bool) -> int:
        return sum(self.table(self.nodes[n], resource, free=free) for n in bits(mask))

    def crosses(self, mask: int) -> bool:
        """Return whether an allocation would mix two groups; the kubelet allows a single node."""
        nodes = [self.nodes[n] for n in bits(mask)]
        if len(nodes) == 1:
            is_grouped = len(bits(nodes[0].cells)) > 1
            return is_grouped and self.has(Difference.GROUPS_STAY_WHOLE)
        return any(n.count > 0 and (len(bits(n.cells)) == 1 or n.cells != mask) for n in nodes)

    def calculate(self, uid: str, request: Amounts) -> HintList:
        found: list[int] = []
        smallest = len(self.nodes)
        for mask in self.masks:
            size = len(bits(mask))
            free = {r: self.total(mask, r, free=True) for r in request}
            if any(self.total(mask, r, free=False) < request[r] for r in free):
                continue
            smallest = min(smallest, size)
            if size == 1 and len(bits(self.nodes[bits(mask)[0]].cells)) > 1:
                continue
            if size > 1 and self.crosses(mask):
                continue
            if all(free[r] + self.reusable.get(uid, mask, r) >= request[r] for r in free):
                found.append(mask)
        return tuple((mask, len(bits(mask)) == smallest) for mask in found)

    def rank(self, mask: int) -> tuple[int, ...]:
        """Return the order of sets in the Memory Manager: narrowest first, then lowest ids."""
        spread = self.spread(mask) if self.has(Difference.CLOSEST_WITHOUT_MERGE) else 0
        return (len(bits(mask)), mask != self.preferred_mask, spread, mask)

    def spread(self, mask: int) -> int:
        if not self.life["closest"]:
            return 0
        return sum(self.rows[a][b] for a in bits(mask) for b in bits(mask))

    def best(self, hints: Iterable[Hint]) -> Hint:
        return min(hints, key=lambda hint: (not hint[1], self.rank(hint[0] or 0)))

    def choose(self, uid: str, request: Amounts, hint: Hint) -> int:
        mask, preferred = hint
        if mask is None:
            found = self.calculate(uid, request)
            if not found or (preferred and not self.best(found)[1]):
                raise RefusedError(UNEXPECTED)
            mask, preferred = self.best(found)
            assert mask is not None
        free = {r: self.total(mask, r, free=True) for r in request}
        if any(free[r] < request[r] for r in free):
            wider = [h for h in self.calculate(uid, request) if h[0] is None or not mask & ~h[0]]
            if not wider or (preferred and not self.best(wider)[1]):
                raise RefusedError(UNEXPECTED)
            mask, _ = self.best(wider)
            assert mask is not None
        if self.crosses(mask):
            raise RefusedError(UNEXPECTED)
        return mask

    def allocate(self, uid: str, container: Mapping[str, Any], mask: int) -> None:
        request = container["requests"]
        for resource, size in request.items():
            left = max(0, size - self.reusable.get(uid, mask, resource))
            charges = self.charges[container["name"], resource] = {}
            for n in bits(mask):
                node = self.nodes[n]
                node.count += 1
                node.cells = mask
                taken = min(left, node.free.get(resource, 0))
                if taken:
                    node.free[resource] -= taken
                    charges[n] = taken
                left -= taken
            self.shrink_inits(mask, resource, size, charges)
        self.reusable.allocated(uid, container["kind"], mask, request)
        self.held[container["name"]] = (container["kind"], mask, dict(request))

    def shrink_inits(self, mask: int, resource: str, size: int, charges: dict[int, int]) -> None:
        """Take the bytes that a container reuses from the blocks of earlier init containers."""
        for name, (kind, nodes, blocks) in self.held.items():
            if kind == "init" and nodes == mask and resource in blocks:
                taken = min(size, blocks[resource])
                blocks[resource] -= taken
                size -= taken
                for n, moved in self.uncharge(name, resource, taken).items():
                    charges[n] = charges.get(n, 0) + moved

    def uncharge(self, name: str, resource: str, most: int) -> dict[int, int]:
        """Remove up to `most` from a block's charges, the lowest node first; return them."""
        removed = {}
        charges = self.charges[name, resource]
        for n in sorted(charges):
            removed[n] = min(most, charges[n])
            charges[n] -= removed[n]
            most -= removed[n]
        return removed

    def release(self) -> None:
        """Release what a refused pod got, from the lowest node of each block first."""
        for _, mask, blocks in self.held.values():
            for resource, size in blocks.items():
                self.release_block(mask, resource, size)

    def release_block(self, mask: int, resource: str, size: int, count: int = 1) -> None:
        """Release bytes; the kubelet takes them from the lowest node with reserved ones."""
        left = size
        for n in bits(mask):
            node = self.nodes[n]
            node.count -= count
            if not node.count:
                node.cells = 1 << n
            reserved = node.allocatable.get(resource, 0) - node.free.get(resource, 0)
            released = min(left, reserved)
            if released:
                node.free[resource] += released
            left -= released
