"""The benchmark's machines, assignments and requests are as described; times are not tested."""

from random import Random

import pytest

from nri_numamem.memorymanager import check_accounting, check_groups
from tests.bench import placement


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_half_of_the_machine_is_full(nodes: int) -> None:
    context = placement.context_of(placement.machine_of(Random(1), nodes, "one size"))
    accounting = placement.half_full(Random(1), context, 110)
    tables = [node.table("memory") for node in accounting.machine_state.values()]
    share = sum(table.reserved for table in tables) / sum(table.allocatable for table in tables)
    assert 0.35 < share < 0.65
    assert check_accounting(accounting) == check_groups(accounting) == ()


def test_fragmented_machines_have_groups_and_free_nodes() -> None:
    context = placement.context_of(placement.machine_of(Random(1), 16, "mixed"))
    accounting = placement.fragmented(Random(1), context, 110)
    nodes = accounting.machine_state.values()
    assert len(accounting.assignments) > 100
    assert any(len(node.cells) > 1 for node in nodes)
    assert any(not node.number_of_assignments for node in nodes)
    assert check_accounting(accounting) == check_groups(accounting) == ()


def test_the_same_seed_gives_the_same_requests() -> None:
    def drawn() -> list[object]:
        random = Random(3)
        machine = placement.machine_of(random, 8, "memory-only nodes")
        return [machine, *(placement.request_of(random, machine) for _ in range(20))]

    assert drawn() == drawn()


def test_a_row_shows_quantiles(capsys: pytest.CaptureFixture[str]) -> None:
    row = placement.Row(4, "empty", 0, "hints", tuple(float(n) for n in range(1, 101)))
    assert (row.quantile(0.5), row.quantile(0.99)) == (50.0, 99.0)
    assert placement.show(row)["max_ms"] == 100.0
    assert capsys.readouterr().out.split()[-3:] == ["50.000", "99.000", "100.000"]
