"""The covering problem against brute force, and on machines that brute force cannot do."""

from itertools import combinations
from random import Random

import pytest

from nri_numamem.memorymanager import Distances, NodeSet, Preferences
from nri_numamem.memorymanager.cover import Cover

NOTHING = NodeSet()
LOWEST = Preferences(prefer_closest=False)


def brute_smallest(cover: Cover, at_least: int, fixed: NodeSet) -> int | None:
    for size in range(at_least, len(cover.amounts) + 1):
        if brute(cover, size, fixed):
            return size
    return None


def brute(cover: Cover, size: int, fixed: NodeSet) -> list[NodeSet]:
    found = map(NodeSet, combinations(cover.amounts, size))
    return [nodes for nodes in found if fixed.issubset(nodes) and cover.covers(nodes)]


def socket_rows(nodes: int, widths: tuple[int, ...], levels: tuple[int, ...]) -> list[list[int]]:
    """Return distances of nested sockets and boards: one level per width, and one beyond."""

    def between(a: int, b: int) -> int:
        if a == b:
            return 10
        for width, level in zip(widths, levels, strict=False):
            if a // width == b // width:
                return level
        return levels[-1]

    return [[between(a, b) for b in range(nodes)] for a in range(nodes)]


def cube_rows(per_socket: int) -> list[list[int]]:
    """Return distances of eight sockets that are joined like the corners of a cube."""

    def between(a: int, b: int) -> int:
        hops = ((a // per_socket) ^ (b // per_socket)).bit_count()
        return 10 if a == b else (12, 21, 31, 41)[hops]

    size = 8 * per_socket
    return [[between(a, b) for b in range(size)] for a in range(size)]


def random_rows(random: Random, nodes: int) -> list[list[int]]:
    shape = random.choice(("sockets", "boards", "cube", "noise", "one way", "links"))
    if shape == "sockets":
        return socket_rows(nodes, (random.choice((2, 3, 4)),), (12, 21))
    if shape == "boards":
        return socket_rows(nodes, (2, 4), (12, 21, 32))
    if shape == "cube":
        return cube_rows(2)
    if shape == "links":
        far = [random.choice((0, 0, 4)) for _ in range(nodes)]
        rows = socket_rows(nodes, (2, 4), (12, 21, 32))
        return [
            [rows[a][b] + (far[a] + far[b]) * (a != b) for b in range(nodes)] for a in range(nodes)
        ]
    levels = (11, 12, 21) if shape == "noise" else (11, 20)
    rows = [[10 if a == b else random.choice(levels) for b in range(nodes)] for a in range(nodes)]
    if shape == "noise":
        rows = [[rows[min(a, b)][max(a, b)] for b in range(nodes)] for a in range(nodes)]
    return rows


def random_cover(random: Random, nodes: int = 12) -> Cover:
    dimensions = random.choice((0, 1, 1, 2, 2, 3))
    ids = sorted(random.sample(range(nodes), random.randint(1, 8)))
    kinds = [
        tuple(random.choice((0, 1, 2, 5, 1000, 1003)) for _ in range(dimensions))
        for _ in range(random.randint(1, 4))
    ]
    amounts = {n: random.choice(kinds) for n in ids}
    total = [sum(held[d] for held in amounts.values()) for d in range(dimensions)]
    need = tuple(random.randint(-1, max(1, most)) for most in total)
    return Cover(amounts, need)


@pytest.mark.parametrize("seed", range(30))
def test_brute_force_finds_the_same(seed: int) -> None:
    random = Random(seed)
    for rows in (16, 8) * 30:
        # Of up to eight nodes all sets are ranked.
        cover = random_cover(random, min(rows, 12))
        ids = list(cover.amounts)
        fixed = NodeSet(random.sample(ids, min(len(ids), random.choice((0, 0, 1, 2)))))
        at_least = random.choice((0, 1, 2))
        home = NodeSet(random.sample(ids, min(len(ids), random.choice((0, 0, 2)))))
        preferences = Preferences(
            Distances.of_rows(random_rows(random, rows)), random.random() < 0.8, home
        )
        least = brute_smallest(cover, max(at_least, len(fixed)), fixed)
        assert cover.smallest(at_least, fixed) == least
        for size in range(least or 0, len(ids) + 1) if least is not None else ():
            want = min(brute(cover, size, fixed), key=preferences.rank)
            assert cover.best(size, preferences, fixed) == want


@pytest.mark.parametrize("seed", range(10))
def test_brute_force_finds_the_same_among_ten_nodes_of_any_kind(seed: int) -> None:
    """Amounts, too, may be anything: nothing that is left out for speed may show up to here."""
    random = Random(seed)
    for _ in range(4):
        dimensions = random.choice((1, 2, 3))
        cover = Cover(
            {n: tuple(random.randint(0, 1000) for _ in range(dimensions)) for n in range(10)},
            tuple(random.randint(1, 3000) for _ in range(dimensions)),
        )
        preferences = Preferences(Distances.of_rows(random_rows(random, 16)))
        least = brute_smallest(cover, 1, NOTHING)
        assert cover.smallest() == least
        for size in (least, least + 1) if least is not None and least < 10 else ():
            want = min(brute(cover, size, NOTHING), key=preferences.rank)
            assert cover.best(size, preferences) == want


@pytest.mark.parametrize("seed", range(6))
def test_the_smallest_set_of_sixteen_nodes_of_any_kind(seed: int) -> None:
    """Every node has other pools: the size is that of the smallest of all 65,535 sets."""
    random = Random(seed)
    kinds = [(9, 0, 0), (0, 9, 0), (0, 0, 9)] if seed % 2 else [(5, 5, 5)]
    amounts = {n: tuple(random.randint(0, 9) + a for a in random.choice(kinds)) for n in range(16)}
    need = tuple(sum(held[d] for held in amounts.values()) * 2 // 3 for d in range(3))
    sums = {0: (0, 0, 0)}
    least = 16
    for mask in range(1, 2**16):
        node_id = mask.bit_length() - 1
        a, b, c = sums[mask ^ 1 << node_id]
        x, y, z = amounts[node_id]
        sums[mask] = (a + x, b + y, c + z)
        if a + x >= need[0] and b + y >= need[1] and c + z >= need[2]:
            least = min(least, mask.bit_count())
    assert Cover(amounts, need).smallest() == least


def test_nothing_to_choose_from() -> None:
    assert Cover({}, (1,)).smallest() is None
    assert Cover({}, ()).smallest(0) == 0
    assert Cover({0: (1,)}, (2,)).smallest() is None
    with pytest.raises(ValueError, match="no 1 nodes cover"):
        Cover({0: (1,), 1: (1,)}, (2,)).best(1, LOWEST)
    with pytest.raises(ValueError, match="no 2 nodes cover"):
        Cover({0: (1,)}, (1,)).best(2, LOWEST)


def test_what_is_left_when_nodes_are_taken() -> None:
    cover = Cover({0: (5, 1), 1: (3, 0), 4: (2, 2)}, (6, 2))
    assert cover.without(NodeSet([0])) == Cover({1: (3, 0), 4: (2, 2)}, (1, 1))
    assert cover.nodes == NodeSet([0, 1, 4])


def test_distances_may_be_unknown_for_some_nodes() -> None:
    near = Preferences(Distances({1: {2: 11}, 2: {1: 11}}))
    cover = Cover(dict.fromkeys((0, 1, 2, 9), (1,)), (2,))
    assert cover.best(2, near) == NodeSet([1, 2])
    assert cover.best(3, Preferences()) == NodeSet([0, 1, 2])


@pytest.mark.parametrize(
    ("rows", "size", "want"),
    [
        pytest.param(socket_rows(64, (8,), (12, 21)), 8, "0-7", id="one socket"),
        pytest.param(socket_rows(64, (8,), (12, 21)), 12, "0-11", id="a socket and a half"),
        pytest.param(socket_rows(64, (4, 16), (12, 21, 32)), 16, "0-15", id="a board"),
        pytest.param(cube_rows(8), 16, "0-15", id="two neighbours of a cube"),
        pytest.param([[10] * 64 for _ in range(64)], 33, "0-32", id="all alike"),
    ],
)
def test_sixty_four_nodes(rows: list[list[int]], size: int, want: str) -> None:
    # MemTotal differs by some pages from node to node, as on real machines.
    amounts = {n: (2**36 - 4096 * (n * 37 % 101),) for n in range(64)}
    cover = Cover(amounts, (size * (2**36 - 2**20),))
    assert cover.smallest() == size
    assert str(cover.best(size, Preferences(Distances.of_rows(rows)))) == want


def test_half_of_the_sockets_are_taken() -> None:
    free = [n for n in range(64) if n % 8 >= 5]
    cover = Cover(dict.fromkeys(free, (1,)), (4,))
    preferences = Preferences(Distances.of_rows(socket_rows(64, (8, 16), (12, 21, 32))))
    assert str(cover.best(4, preferences)) == "5-7,13"


def test_amounts_that_differ_little_are_not_taken_for_equal() -> None:
    # 0-1 are closest, but hold one byte less than is needed.
    rows = [[10, 11, 20, 20], [11, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
    cover = Cover({0: (999,), 1: (1000,), 2: (1000,), 3: (1000,)}, (2000,))
    assert cover.best(2, Preferences(Distances.of_rows(rows))) == NodeSet([2, 3])


@pytest.mark.parametrize("seed", range(10))
def test_brute_force_finds_the_same_among_nodes_that_differ_little(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        dimensions = random.choice((1, 2))
        amounts = {
            n: tuple(random.randint(990, 1000) for _ in range(dimensions))
            for n in sorted(random.sample(range(16), 9))
        }
        size = random.randint(2, 5)
        need = tuple(random.randint(size * 990, size * 997) for _ in range(dimensions))
        cover = Cover(amounts, need)
        for rows in (random_rows(random, 16), socket_rows(16, (4, 8), (12, 21, 32))):
            preferences = Preferences(Distances.of_rows(rows))
            found = brute(cover, size, NOTHING)
            if found:
                assert cover.best(size, preferences) == min(found, key=preferences.rank)


def test_every_node_has_other_pools_and_other_distances() -> None:
    """Beyond the bounds on the work the answer still covers with the number of nodes asked for."""
    random = Random(1)
    rows = [[10 if a == b else random.randint(11, 40) for b in range(64)] for a in range(64)]
    amounts = {n: tuple(random.randint(1, 10**6) for _ in range(4)) for n in range(64)}
    need = tuple(sum(held[d] for held in amounts.values()) // 3 for d in range(4))
    cover = Cover(amounts, need)
    size = cover.smallest()
    assert size is not None
    best = cover.best(size, Preferences(Distances.of_rows(rows)))
    assert len(best) == size
    assert cover.covers(best)
