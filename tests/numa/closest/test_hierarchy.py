from nri_numamem.numa.closest.hierarchy import Module, decompose, root_module

Row = list[int]


def root_of(rows: list[Row]) -> Module:
    return root_module(range(len(rows)), lambda a, b: rows[a][b] + rows[b][a])


def shape(module: Module) -> object:
    """Return a module as (pair distance, children), a node as its id."""
    if not module.children:
        return module.node_ids[0]
    return (module.pair_distance, *sorted((shape(child) for child in module.children), key=str))


def test_one_node() -> None:
    assert root_of([[10]]) == Module((0,))


def test_equidistant_nodes_are_one_module() -> None:
    assert shape(root_of([[10, 20, 20], [20, 10, 20], [20, 20, 10]])) == (40, 0, 1, 2)


def test_sockets_nest() -> None:
    rows = [[10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]
    assert shape(root_of(rows)) == (42, (22, 0, 1), (24, 2, 3))


def test_a_node_beside_a_socket() -> None:
    rows = [[10, 11, 40], [11, 10, 40], [40, 40, 10]]
    assert shape(root_of(rows)) == (80, (22, 0, 1), 2)


def test_opposite_nodes_of_a_ring_are_equivalent() -> None:
    ring = [[10, 15, 20, 15], [15, 10, 15, 20], [20, 15, 10, 15], [15, 20, 15, 10]]
    assert shape(root_of(ring)) == (30, (40, 0, 2), (40, 1, 3))


def test_a_machine_without_equivalent_nodes_is_prime() -> None:
    rows = [[10, 11, 12, 13], [11, 10, 14, 15], [12, 14, 10, 16], [13, 15, 16, 10]]
    root = root_of(rows)
    assert root.is_prime
    assert shape(root) == (None, 0, 1, 2, 3)


def test_a_pair_distance_is_the_sum_of_both_directions() -> None:
    rows = [[10, 11, 21], [13, 10, 21], [21, 21, 10]]
    assert shape(root_of(rows)) == (42, (24, 0, 1), 2)


def test_remote_nodes_do_not_hide_the_modules() -> None:
    """Two sockets of two nodes, each with memory behind a link: the links are longer by 4."""
    remote = {2, 5}
    plain = [[10 if a == b else 11 if a // 3 == b // 3 else 20 for b in range(6)] for a in range(6)]
    rows = [
        [plain[a][b] + 4 * ((a in remote) + (b in remote)) * (a != b) for b in range(6)]
        for a in range(6)
    ]
    decomposition = decompose(range(6), lambda a, b: rows[a][b] + rows[b][a])
    assert decomposition.remoteness == {0: 0, 1: 0, 2: 8, 3: 0, 4: 0, 5: 8}
    assert shape(decomposition.root) == (40, (22, 0, 1, 2), (22, 3, 4, 5))


def test_a_prime_machine_has_no_remoteness() -> None:
    rows = [[10 if a == b else 11 + (a * b) % 7 + abs(a - b) for b in range(7)] for a in range(7)]
    decomposition = decompose(range(7), lambda a, b: rows[a][b] + rows[b][a])
    assert decomposition.remoteness == dict.fromkeys(range(7), 0)
    assert decomposition.root.is_prime
