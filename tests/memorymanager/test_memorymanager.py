"""The docstring of the package nri_numamem.memorymanager: its example, and its table of names."""

import importlib
import re
from itertools import combinations

import pytest

from nri_numamem import memorymanager
from nri_numamem.memorymanager import (
    Block,
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    State,
    default_state,
)
from nri_numamem.numa import Distances, Machine, NodeSet, NumaNode, Preferences
from tests.laboratory.container_hints import full_hints
from tests.property.worlds import Allocated, allocate

GI = 1 << 30
ROWS = [[10, 12, 21, 21], [12, 10, 21, 21], [21, 21, 10, 12], [21, 21, 12, 10]]
MACHINE = Machine(tuple(NumaNode(n, 8 * GI, distances=dict(enumerate(ROWS[n]))) for n in range(4)))
PREFERENCES = Preferences(Distances.of_machine(MACHINE))
START = default_state(MACHINE, {0: {"memory": GI}})
REQUESTS = {"A": 3, "B": 12, "C": 5, "D": 4, "E": 6}
ROW = re.compile(r"    (?:([A-E]) +(\d+) GiB +(\S+) )? +((?:\d / \d *){4})")


def pod(name: str) -> Pod:
    requests = {"memory": REQUESTS[name] * GI}
    return Pod(
        f"pod-{name}", guaranteed=True, containers=(Container(name, ContainerKind.APP, requests),)
    )


def place(state: State, name: str) -> Allocated | Rejection:
    return allocate(state, pod(name), name, Hint(None, preferred=False), PREFERENCES)


def before(name: str) -> State:
    """Return the state in which a request of the example is placed."""
    state = START
    for earlier in REQUESTS:
        if earlier == name:
            break
        placed = place(state, earlier)
        assert isinstance(placed, Allocated)
        state = placed.state
    return state


def hints(name: str) -> dict[str, bool]:
    """Return node set -> whether its hint is preferred, for all candidates of a request."""
    found = full_hints(before(name), pod(name), name) or {}
    return {str(hint.affinity): hint.preferred for hint in found.get("memory", ())}


def tables(state: State) -> list[tuple[int, int]]:
    memory = [node.memory_map["memory"] for node in state.machine_state.values()]
    return [(table.reserved // GI, table.free // GI) for table in memory]


def test_the_table_of_the_example() -> None:
    rows = ROW.findall(memorymanager.__doc__ or "")
    assert [name for name, *_ in rows] == ["", *REQUESTS]
    state = START
    for name, size, placed_on, figures in rows:
        if name:
            assert int(size) == REQUESTS[name]
            placed = place(state, name)
            if isinstance(placed, Allocated):
                state = placed.state
            assert placed_on == ("rejected" if isinstance(placed, Rejection) else str(placed.nodes))
        numbers = [int(number) for number in re.findall(r"\d", figures)]
        assert tables(state) == list(zip(numbers[::2], numbers[1::2], strict=True))


def test_a_fits_on_every_single_node() -> None:
    assert [nodes for nodes, preferred in hints("A").items() if preferred] == ["0", "1", "2", "3"]


def test_b_is_placed_on_the_closest_two_nodes() -> None:
    pairs = [nodes for nodes in hints("B") if len(NodeSet.parse(nodes)) == 2]
    assert pairs == ["1-2", "1,3", "2-3"]
    spread = {nodes: PREFERENCES.distances.spread(NodeSet.parse(nodes)) for nodes in pairs}
    assert spread == {"1-2": 62, "1,3": 62, "2-3": 44}
    after = before("C")
    (block,) = after.assignments["pod-B"]["B"]
    assert block == Block(NodeSet([2, 3]), "memory", 12 * GI)
    assert block.charges == ((2, 8 * GI), (3, 4 * GI))
    assert [str(node.cells) for node in after.machine_state.values()] == ["0", "1", "2-3", "2-3"]


def test_c_fits_on_one_node_only() -> None:
    assert hints("C") == {"1": True}


def test_d_has_a_preferred_hint_and_another() -> None:
    assert hints("D") == {"0": True, "2-3": False}


def test_e_is_rejected_and_the_message_names_each_node() -> None:
    assert hints("E") == {}
    rejection = place(before("E"), "E")
    assert isinstance(rejection, Rejection)
    assert "fits on 1 empty NUMA node" in rejection.message
    nodes = [verdict.node_id for verdict in rejection.explanation.per_node]
    assert nodes == list(range(4))


def test_all_pairs_of_the_matrix_have_the_distances_of_the_example() -> None:
    found = {PREFERENCES.distances.between(a, b) for a, b in combinations(range(4), 2)}
    assert found == {12, 21}


TABLE = (memorymanager.__doc__ or "").split("=\n")[-2]
NAMES = sorted(set(re.findall(r"\b([a-z_]+(?:\.[A-Za-z_]+)+)", TABLE)))


def test_the_table_names_functions() -> None:
    assert len(NAMES) >= 18


@pytest.mark.parametrize("name", NAMES)
def test_every_name_in_the_table_exists(name: str) -> None:
    module, *attributes = name.split(".")
    found: object = importlib.import_module(f"nri_numamem.memorymanager.{module}")
    for attribute in attributes:
        found = getattr(found, attribute)
    assert callable(found)
