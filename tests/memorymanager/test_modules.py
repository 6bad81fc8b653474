from nri_numamem.memorymanager.modules import Module, module_of

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
