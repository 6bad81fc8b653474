"""Modular decomposition of the distance matrix: which nodes have equal distances to the others.

Distances between NUMA nodes follow boards, sockets and dies. The nodes of one socket are equally
far from each node of another socket. A set of nodes is a *module* if every node outside has the
same distance to all nodes of the set. Modules nest, from single nodes up to the whole machine. In
most modules any two nodes of different children have the same *pair distance*, so the cost of a
choice depends on how many nodes it has in each child, not on which. That makes "the closest k of
64 nodes" easy.

Modules are merged from single nodes upwards. Where no two modules are equivalent any more (a ring
or a mesh of sockets), they become the children of a *prime* module, the whole machine, which has
no pair distance. Nodes that are farther from all others by a constant (memory behind a CXL link)
hide the modules. So if the machine is prime, the decomposition is tried again without these
constants.

Source: modular decomposition of 2-structures (Ehrenfeucht and Rozenberg).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

PairDistance = Callable[[int, int], int]
"""The distance from the first to the second node plus the distance back."""


@dataclass(frozen=True, slots=True)
class Module:
    """A set of nodes that are equidistant from every node outside."""

    node_ids: tuple[int, ...]
    """All nodes of the module. The first represents them in distances to nodes outside."""
    children: tuple["Module", ...] = ()
    """The modules that it consists of; none for a single node."""
    pair_distance: int | None = 0
    """The distance there and back between nodes of different children; None if it differs."""

    @property
    def is_prime(self) -> bool:
        """Whether the children have different distances to each other."""
        return self.pair_distance is None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The modules of a machine, and the constants that they leave out."""

    root: Module
    """The module of all nodes."""
    remoteness: Mapping[int, int]
    """Node id -> what the distance of every pair with this node exceeds the module's."""


def decompose(node_ids: Iterable[int], pair_distance: PairDistance) -> Decomposition:
    """Return the modular decomposition of one or more nodes."""
    ids = tuple(node_ids)
    plain = Decomposition(root_module(ids, pair_distance), dict.fromkeys(ids, 0))
    if not plain.root.is_prime:
        return plain
    farthest = {n: max(pair_distance(n, other) for other in ids if other != n) for n in ids}
    least = min(farthest.values())
    remoteness = {n: distance - least for n, distance in farthest.items()}
    root = root_module(ids, lambda a, b: pair_distance(a, b) - remoteness[a] - remoteness[b])
    return plain if root.is_prime else Decomposition(root, remoteness)


def root_module(node_ids: Iterable[int], pair_distance: PairDistance) -> Module:
    """Return the module of one or more nodes, from single nodes upwards."""
    modules = [Module((node_id,)) for node_id in node_ids]
    while len(modules) > 1:
        merged = _merge_equivalent(modules, pair_distance)
        if len(merged) == len(modules):
            all_ids = tuple(n for module in modules for n in module.node_ids)
            return Module(all_ids, tuple(modules), pair_distance=None)
        modules = merged
    return modules[0]


def _merge_equivalent(modules: list[Module], pair_distance: PairDistance) -> list[Module]:
    """Merge modules that are equidistant from all other modules.

    Two modules at distance d are equivalent if their rows of the matrix are equal once d stands
    on both diagonals. For one d that is an equivalence relation, so each class has one pair
    distance, d.
    """
    firsts = [module.node_ids[0] for module in modules]
    rows = [[pair_distance(a, b) if a != b else 0 for b in firsts] for a in firsts]
    distances = sorted({rows[a][b] for a in range(len(rows)) for b in range(a)})
    merged: list[Module] = []
    remaining = dict(enumerate(modules))
    for distance in distances:
        equivalent: dict[tuple[int, ...], list[int]] = {}
        for index in remaining:
            row = rows[index].copy()
            row[index] = distance
            equivalent.setdefault(tuple(row), []).append(index)
        for indices in equivalent.values():
            if len(indices) > 1:
                children = tuple(remaining.pop(index) for index in indices)
                ids = tuple(n for child in children for n in child.node_ids)
                merged.append(Module(ids, children, distance))
    return merged + list(remaining.values())
