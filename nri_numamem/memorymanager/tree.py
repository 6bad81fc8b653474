"""The nodes to choose from as a binary tree, and what any choice in it costs at least.

A leaf is a run of nodes that are alike in all respects, so that only their number counts; two
subtrees meet at a distance that is the same for every pair across. Leaving the need aside, two
passes give for every subtree and number of nodes the lowest cost inside (`least`, upwards) and
of all the rest of the machine (`beyond`, downwards). Their sum tells of a way to take nodes
(``ways``) what it will have cost in the end at least: most ways need never be made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_numamem.memorymanager.modules import Module

Amounts = tuple[int, ...]

# More than any set of nodes can cost.
OUT_OF_REACH = 2**62


@dataclass(slots=True)
class Tree:
    """A subtree; `ids`, `cost` and `held` describe a leaf, the other two a fork."""

    apart: int
    """The pair cost between the nodes of a leaf, or across a fork."""
    ids: tuple[int, ...] = ()
    """The nodes of a leaf, ascending."""
    cost: int = 0
    """What each of them costs by itself."""
    held: Amounts = ()
    """What each of them holds."""
    forks: "tuple[Tree, Tree] | None" = None
    least: list[int] = field(default_factory=list)
    """By number of nodes taken: the lowest cost inside."""
    beyond: list[int] = field(default_factory=list)
    """By number of nodes taken: the lowest cost of the others, and between them and these."""


def tree_of(
    module: Module, costs: Mapping[int, int], amounts: Mapping[int, Amounts], count: int
) -> Tree | None:
    """Return the tree of those nodes of a module that have amounts; None when there are none.

    The parts of every module in it must be equally far apart. `least` is filled in for up to
    `count` nodes.
    """
    apart = module.apart or 0
    alike: dict[tuple[int, Amounts], list[int]] = {}
    trees: list[Tree] = []
    for part in module.parts or (module,):
        if part.parts:
            tree = tree_of(part, costs, amounts, count)
            if tree is not None:
                trees.append(tree)
        elif part.node_ids[0] in amounts:
            n = part.node_ids[0]
            alike.setdefault((costs[n], amounts[n]), []).append(n)
    trees += [_leaf(ids, *key, apart, count) for key, ids in alike.items()]
    if not trees:
        return None
    joined = trees[0]
    for tree in trees[1:]:
        joined = _fork(joined, tree, apart, count)
    return joined


def _leaf(ids: list[int], cost: int, held: Amounts, apart: int, count: int) -> Tree:
    numbers = range(min(len(ids), count) + 1)
    least = [n * cost + n * (n - 1) // 2 * apart for n in numbers]
    return Tree(apart, tuple(sorted(ids)), cost, held, least=least)


def _fork(first: Tree, second: Tree, apart: int, count: int) -> Tree:
    most = min(len(first.least) + len(second.least) - 2, count)
    least = [OUT_OF_REACH] * (most + 1)
    for taken, own in enumerate(first.least):
        across = 0
        for number, cost in enumerate(second.least[: most - taken + 1], start=taken):
            if own + cost + across < least[number]:
                least[number] = own + cost + across
            across += apart * taken
    return Tree(apart, forks=(first, second), least=least)


def look_beyond(tree: Tree, beyond: list[int]) -> None:
    """Fill in `beyond` everywhere in a tree."""
    tree.beyond = beyond
    if tree.forks is None:
        return
    for own, other in (tree.forks, tree.forks[::-1]):
        found = [OUT_OF_REACH] * len(own.least)
        for taken in range(len(own.least)):
            across = 0
            best = OUT_OF_REACH
            for cost, rest in zip(other.least, beyond[taken:], strict=False):
                if cost + rest + across < best:
                    best = cost + rest + across
                across += tree.apart * taken
            found[taken] = best
        look_beyond(own, found)
