"""An independent implementation of the kubelet's rules by brute force, as an oracle for tests.

It enumerates every node set and every combination of hints, with plain dicts. It was written from
a description of the kubelet and shares no code with the package, so an error in one of them shows
as a difference. It is slow, for machines of a few nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import TypeAlias

Nodes: TypeAlias = tuple[int, ...]
OracleHint: TypeAlias = tuple[Nodes | None, bool]
Amounts: TypeAlias = dict[str, int]


@dataclass
class Node:
    allocatable: Amounts
    free: Amounts = field(default_factory=dict)
    count: int = 0
    cells: Nodes = ()


@dataclass
class Taken:
    """One block; if `ended` > 0, the pod's next containers may reuse its bytes.

    Blocks that ended first are reused first.
    """

    nodes: Nodes
    resource: str
    size: int
    ended: int = 0


class RefusedError(Exception):
    """The request was rejected; the text is the kubelet's."""


class Oracle:
    """A machine with the policy Static; without distances, the lowest ids win."""

    def __init__(
        self, nodes: dict[int, Amounts], distances: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.nodes = {
            n: Node(dict(amounts), dict(amounts), 0, (n,)) for n, amounts in sorted(nodes.items())
        }
        self.distances = distances
        self.held: dict[tuple[str, str], list[Taken]] = {}

    def copy(self) -> "Oracle":
        """Return an independent copy."""
        twin = Oracle({}, self.distances)
        twin.nodes = {
            n: Node(node.allocatable, dict(node.free), node.count, node.cells)
            for n, node in self.nodes.items()
        }
        twin.held = {key: [replace(t) for t in taken] for key, taken in self.held.items()}
        return twin

    # Comparisons

    def rank(self, nodes: Nodes) -> tuple[int, float, int]:
        """Return a key: fewest nodes, smallest average distance, lowest ids."""
        average = 0.0
        if self.distances is not None:
            total = sum(self.distances[a][b] for a in nodes for b in nodes)
            average = total / len(nodes) ** 2
        return (len(nodes), average, sum(1 << n for n in nodes))

    # Hints

    def masks(self) -> Iterable[Nodes]:
        for size in range(1, len(self.nodes) + 1):
            yield from combinations(self.nodes, size)

    def reusable(self, uid: str, nodes: Nodes, resource: str) -> int:
        return sum(
            taken.size
            for (owner, _), blocks in self.held.items()
            for taken in blocks
            if owner == uid and taken.ended and taken.nodes == nodes and taken.resource == resource
        )

    def fits_empty(self, nodes: Nodes, request: Amounts) -> bool:
        return all(
            sum(self.nodes[n].allocatable.get(r, 0) for n in nodes) >= q for r, q in request.items()
        )

    def fits_now(self, uid: str, nodes: Nodes, request: Amounts) -> bool:
        return all(
            sum(self.nodes[n].free.get(r, 0) for n in nodes) + self.reusable(uid, nodes, r) >= q
            for r, q in request.items()
        )

    def mixes(self, nodes: Nodes) -> bool:
        if len(nodes) == 1:
            return len(self.nodes[nodes[0]].cells) > 1
        for n in nodes:
            node = self.nodes[n]
            if node.count > 0 and (len(node.cells) == 1 or tuple(sorted(node.cells)) != nodes):
                return True
        return False

    def hints(self, uid: str, request: Amounts) -> list[OracleHint]:
        smallest = len(self.nodes)
        found: list[Nodes] = []
        for nodes in self.masks():
            if not self.fits_empty(nodes, request):
                continue
            smallest = min(smallest, len(nodes))
            if not self.mixes(nodes) and self.fits_now(uid, nodes, request):
                found.append(nodes)
        return [(nodes, len(nodes) == smallest) for nodes in found]

    def best(self, hints: list[OracleHint]) -> OracleHint:
        return min(hints, key=lambda hint: (not hint[1], self.rank(hint[0] or ())))

    # Allocation

    def attempt(
        self, uid: str, name: str, request: Amounts, hint: OracleHint
    ) -> tuple[Nodes | None, str]:
        """Allocate; return the nodes, or None and the kubelet's text."""
        try:
            return self.allocate(uid, name, request, hint), ""
        except RefusedError as problem:
            return None, str(problem)

    def allocate(self, uid: str, name: str, request: Amounts, hint: OracleHint) -> Nodes:
        if (uid, name) in self.held:
            blocks = self.held[uid, name]
            wanted = sorted(request.items())
            ended = all(taken.ended for taken in blocks)
            if not ended or sorted((t.resource, t.size) for t in blocks) == wanted:
                for taken in blocks:
                    taken.ended = 0
                return blocks[0].nodes
        before = self.held.get((uid, name))
        self.remove(uid, name)
        try:
            nodes = self.choose(uid, request, hint)
        except RefusedError:
            if before is not None:
                self.put(uid, name, before)
            raise
        self.take(uid, name, request, nodes)
        return nodes

    def choose(self, uid: str, request: Amounts, hint: OracleHint) -> Nodes:
        nodes, preferred = hint
        if nodes is None:
            found, text = self.hints(uid, request), "failed to get the default NUMA affinity"
            late = "failed to find the default preferred hint"
        elif any(sum(self.nodes[n].free.get(r, 0) for n in nodes) < q for r, q in request.items()):
            found = [h for h in self.hints(uid, request) if set(nodes) <= set(h[0] or ())]
            text = "failed to find NUMA nodes to extend the current topology hint"
            late = "failed to find the extended preferred hint"
        else:
            if self.mixes(nodes):
                raise RefusedError("preferred hint violates NUMA node allocation")
            return nodes
        if not found:
            raise RefusedError(text)
        best = self.best(found)
        if preferred and not best[1]:
            raise RefusedError(late)
        assert best[0] is not None
        return best[0]

    def take(self, uid: str, name: str, request: Amounts, nodes: Nodes) -> None:
        blocks = []
        for resource, size in request.items():
            left = size
            own = [t for (owner, _), held in self.held.items() if owner == uid for t in held]
            for taken in sorted(own, key=lambda taken: taken.ended):
                if taken.ended and taken.nodes == nodes and taken.resource == resource:
                    moved = min(left, taken.size)
                    taken.size -= moved
                    left -= moved
            for n in nodes:
                node = self.nodes[n]
                node.count += 1
                node.cells = nodes
                moved = min(left, node.free.get(resource, 0))
                if moved:
                    node.free[resource] -= moved
                left -= moved
            assert left == 0, "a container was placed where it does not fit"
            blocks.append(Taken(nodes, resource, size))
        self.held[uid, name] = blocks

    def put(self, uid: str, name: str, blocks: list[Taken]) -> None:
        """Undo remove()."""
        for taken in blocks:
            left = taken.size
            for n in taken.nodes:
                node = self.nodes[n]
                node.count += 1
                node.cells = taken.nodes
                moved = min(left, node.free.get(taken.resource, 0))
                if moved:
                    node.free[taken.resource] -= moved
                left -= moved
            assert left == 0
        self.held[uid, name] = blocks

    def end(self, uid: str, name: str) -> None:
        last = max((t.ended for held in self.held.values() for t in held), default=0)
        for taken in self.held.get((uid, name), []):
            taken.ended = taken.ended or last + 1

    def remove(self, uid: str, name: str) -> None:
        for taken in self.held.pop((uid, name), []):
            left = taken.size
            for n in taken.nodes:
                node = self.nodes[n]
                node.count -= 1
                if node.count == 0:
                    node.cells = (n,)
                used = node.allocatable.get(taken.resource, 0) - node.free.get(taken.resource, 0)
                moved = min(left, used)
                if moved:
                    node.free[taken.resource] += moved
                left -= moved

    # Comparison with the package

    def accounting(self) -> dict[int, tuple[int, Nodes, Amounts]]:
        """Return per node: assignments, group, and the free bytes of the whole group."""
        return {
            n: (
                node.count,
                node.cells,
                {r: sum(self.nodes[m].free.get(r, 0) for m in node.cells) for r in node.free},
            )
            for n, node in self.nodes.items()
        }

    # The Topology Manager

    def merge(
        self, providers: Sequence[dict[str, list[OracleHint] | None] | None], policy: str
    ) -> tuple[OracleHint, bool]:
        everything = tuple(self.nodes)
        lists: list[list[OracleHint]] = []
        for provider in providers:
            if not provider:
                lists.append([(None, True)])
            else:
                answers = provider.values()
                lists += [[(None, True)] if li is None else li or [(None, False)] for li in answers]
        if policy == "single-numa-node":
            lists = [[h for h in li if h[1] and (h[0] is None or len(h[0]) == 1)] for li in lists]
        bound = 0
        for li in lists:
            counts = [len(nodes) for nodes, _ in li if nodes is not None]
            if counts:
                bound = max(bound, min(counts))
        current: OracleHint | None = None
        for combination in product(*lists):
            candidate = self.joint(everything, combination)
            current = self.better(current, candidate, bound, policy)
        if current is None:
            current = (everything, False)
        if policy == "single-numa-node" and current[0] == everything:
            current = (None, current[1])
        return current, current[1] or policy == "best-effort"

    def joint(self, everything: Nodes, combination: Sequence[OracleHint]) -> OracleHint:
        affinity = set(everything)
        preferred = True
        first: Nodes | None = None
        for nodes, wanted in combination:
            preferred = preferred and wanted
            if nodes is not None:
                affinity &= set(nodes)
                first = nodes if first is None else first
                preferred = preferred and nodes == first
        return tuple(sorted(affinity)), preferred

    def better(
        self, current: OracleHint | None, candidate: OracleHint, bound: int, policy: str
    ) -> OracleHint | None:
        if not candidate[0]:
            return current
        if current is None or (candidate[1] and not current[1]):
            return candidate
        if current[1] and not candidate[1]:
            return current
        have, new = current[0] or (), candidate[0]
        if current[1] or len(have) > bound:
            return self.closer(current, candidate, policy)
        if len(have) == bound:
            return current if len(new) != bound else self.closer(current, candidate, policy)
        if len(new) > bound:
            return current
        if len(new) == bound or len(new) > len(have):
            return candidate
        return current if len(new) < len(have) else self.closer(current, candidate, policy)

    def closer(self, current: OracleHint, candidate: OracleHint, policy: str) -> OracleHint:
        have, new = current[0] or (), candidate[0] or ()
        if policy == "single-numa-node":
            less = (len(new), sum(1 << n for n in new)) < (len(have), sum(1 << n for n in have))
        else:
            less = self.rank(new) < self.rank(have)
        return candidate if less else current
