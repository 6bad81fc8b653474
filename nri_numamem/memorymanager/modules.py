"""The structure in a matrix of distances: which nodes stand alike to all others.

Distances between NUMA nodes come from boards, sockets and dies. The nodes of one socket are as
far from each other as from their neighbours on the next board; seen from outside they are the
same. Such a set is a *module*; modules nest, down to single nodes. Inside most modules all parts
are equally far *apart*, and then only the number of nodes taken from each part counts, not which.
That is what makes "the closest k of 64 nodes" easy (``closest``).

Where no two parts are alike (a ring or a mesh of sockets), the module has no `apart`. Nodes that
are just farther from all others (memory behind a link, as CXL) hide the structure; so where none
is found, it is looked for once more with that taken off.
"""

from collections.abc import Callable, Iterable, Mapping

from nri_numamem.values import valueclass

PairCost = Callable[[int, int], int]
"""What two different nodes cost together: the distance there plus the distance back."""


@valueclass(frozen=True, slots=True)
class Module:
    """A set of nodes that stand alike to every node outside it."""

    node_ids: tuple[int, ...]
    """All its nodes; the first stands for it in every question about distances to outside."""
    parts: tuple["Module", ...] = ()
    """The modules that it consists of; none for a single node."""
    apart: int | None = 0
    """The pair cost between nodes of different parts; None when it differs."""


@valueclass(frozen=True, slots=True)
class Structure:
    """The module of all nodes, and what distances it leaves out."""

    module: Module
    remoteness: Mapping[int, int]
    """Node id -> what each pair with this node costs more than the module says."""


def structure_of(node_ids: Iterable[int], pair_cost: PairCost) -> Structure:
    """Return the structure of the nodes, of which there is at least one."""
    ids = tuple(node_ids)
    plain = Structure(module_of(ids, pair_cost), dict.fromkeys(ids, 0))
    if plain.module.apart is not None:
        return plain
    farthest = {n: max(pair_cost(n, other) for other in ids if other != n) for n in ids}
    nearest = min(farthest.values())
    remoteness = {n: cost - nearest for n, cost in farthest.items()}
    module = module_of(ids, lambda a, b: pair_cost(a, b) - remoteness[a] - remoteness[b])
    return plain if module.apart is None else Structure(module, remoteness)


def module_of(node_ids: Iterable[int], pair_cost: PairCost) -> Module:
    """Return the module of all the nodes, of which there is at least one."""
    modules = [Module((node_id,)) for node_id in node_ids]
    while len(modules) > 1:
        merged = _merge_alike(modules, pair_cost)
        if len(merged) == len(modules):
            everything = tuple(n for module in modules for n in module.node_ids)
            return Module(everything, tuple(modules), apart=None)
        modules = merged
    return modules[0]


def _merge_alike(modules: list[Module], pair_cost: PairCost) -> list[Module]:
    """Put modules together that are alike to all others.

    Two modules are alike when their rows of the matrix agree once both diagonals hold the cost
    between the two; alikeness is transitive, and so that cost is the same within a class.
    """
    firsts = [module.node_ids[0] for module in modules]
    rows = [[pair_cost(a, b) if a != b else 0 for b in firsts] for a in firsts]
    values = sorted({rows[a][b] for a in range(len(rows)) for b in range(a)})
    merged: list[Module] = []
    left = dict(enumerate(modules))
    for value in values:
        alike: dict[tuple[int, ...], list[Module]] = {}
        for index, module in left.items():
            row = rows[index].copy()
            row[index] = value
            alike.setdefault(tuple(row), []).append(module)
        for parts in alike.values():
            if len(parts) > 1:
                ids = tuple(n for part in parts for n in part.node_ids)
                merged.append(Module(ids, tuple(parts), value))
        gone = {id(part) for parts in alike.values() if len(parts) > 1 for part in parts}
        left = {index: module for index, module in left.items() if id(module) not in gone}
    return merged + list(left.values())
