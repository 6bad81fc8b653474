from nri_numamem.memorymanager.modules import Module, module_of, structure_of

Row = list[int]


def modules(rows: list[Row]) -> Module:
    return module_of(range(len(rows)), lambda a, b: rows[a][b] + rows[b][a])


def shape(module: Module) -> object:
    """Return a module as (apart, parts), a node as its id."""
    if not module.parts:
        return module.node_ids[0]
    return (module.apart, *sorted((shape(part) for part in module.parts), key=str))


def test_one_node() -> None:
    assert modules([[10]]) == Module((0,))


def test_nodes_that_are_all_alike() -> None:
    assert shape(modules([[10, 20, 20], [20, 10, 20], [20, 20, 10]])) == (40, 0, 1, 2)


def test_sockets_nest() -> None:
    rows = [[10, 11, 21, 21], [11, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]
    assert shape(modules(rows)) == (42, (22, 0, 1), (24, 2, 3))


def test_a_node_may_stand_beside_a_socket() -> None:
    rows = [[10, 11, 40], [11, 10, 40], [40, 40, 10]]
    assert shape(modules(rows)) == (80, (22, 0, 1), 2)


def test_a_ring_has_only_opposite_nodes_alike() -> None:
    ring = [[10, 15, 20, 15], [15, 10, 15, 20], [20, 15, 10, 15], [15, 20, 15, 10]]
    assert shape(modules(ring)) == (30, (40, 0, 2), (40, 1, 3))


def test_no_two_parts_alike() -> None:
    rows = [[10, 11, 12, 13], [11, 10, 14, 15], [12, 14, 10, 16], [13, 15, 16, 10]]
    module = modules(rows)
    assert module.apart is None
    assert shape(module) == (None, 0, 1, 2, 3)


def test_both_directions_count() -> None:
    rows = [[10, 11, 21], [13, 10, 21], [21, 21, 10]]
    assert shape(modules(rows)) == (42, (24, 0, 1), 2)


def test_nodes_that_are_just_farther_hide_no_structure() -> None:
    """Two sockets of two nodes, each with memory behind a link: the links are longer by 4."""
    link = {2, 5}
    plain = [[10 if a == b else 11 if a // 3 == b // 3 else 20 for b in range(6)] for a in range(6)]
    rows = [
        [plain[a][b] + 4 * ((a in link) + (b in link)) * (a != b) for b in range(6)]
        for a in range(6)
    ]
    structure = structure_of(range(6), lambda a, b: rows[a][b] + rows[b][a])
    assert structure.remoteness == {0: 0, 1: 0, 2: 8, 3: 0, 4: 0, 5: 8}
    assert shape(structure.module) == (40, (22, 0, 1, 2), (22, 3, 4, 5))


def test_where_there_is_no_structure_distances_stay_as_they_are() -> None:
    rows = [[10 if a == b else 11 + (a * b) % 7 + abs(a - b) for b in range(7)] for a in range(7)]
    structure = structure_of(range(7), lambda a, b: rows[a][b] + rows[b][a])
    assert structure.remoteness == dict.fromkeys(range(7), 0)
    assert structure.module.apart is None
