"""The benchmark asks what it says; how long the answers take is not tested."""

from random import Random

import pytest

from nri_numamem.memorymanager import check_books, check_groups
from tests.bench import placement


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_half_of_the_machine_is_full(nodes: int) -> None:
    context = placement.context_of(placement.machine_of(Random(1), nodes, "one size"))
    books = placement.half_full(Random(1), context, 110)
    tables = [node.table("memory") for node in books.machine_state.values()]
    share = sum(table.reserved for table in tables) / sum(table.allocatable for table in tables)
    assert 0.35 < share < 0.65
    assert check_books(books) == check_groups(books) == ()


def test_fragmented_books_have_groups_and_idle_nodes() -> None:
    context = placement.context_of(placement.machine_of(Random(1), 16, "mixed"))
    books = placement.fragmented(Random(1), context, 110)
    nodes = books.machine_state.values()
    assert len(books.assignments) > 100
    assert any(len(node.cells) > 1 for node in nodes)
    assert any(not node.number_of_assignments for node in nodes)
    assert check_books(books) == check_groups(books) == ()


def test_the_same_seed_asks_the_same() -> None:
    def asked() -> list[object]:
        random = Random(3)
        machine = placement.machine_of(random, 8, "memory-only nodes")
        return [machine, *(placement.request_of(random, machine) for _ in range(20))]

    assert asked() == asked()


def test_rows_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    row = placement.Row(4, "empty", 0, "hints", tuple(float(n) for n in range(1, 101)))
    assert (row.quantile(0.5), row.quantile(0.99)) == (50.0, 99.0)
    assert placement.show(row)["max_ms"] == 100.0
    assert capsys.readouterr().out.split()[-3:] == ["50.000", "99.000", "100.000"]
    assert placement.exponent([(1.0, 3.0), (2.0, 12.0), (4.0, 48.0)]) == pytest.approx(2.0)
