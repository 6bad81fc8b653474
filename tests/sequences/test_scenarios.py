"""Scenarios of lives: `simulate` plays them, and a plugin process gives the same results."""

from collections import Counter

import pytest

from nri_numamem.memorymanager import check_accounting
from tests.laboratory.over_nri import compare_over_nri
from tests.sequences.node_life import node_life
from tests.sequences.scenarios import played, with_policy


def test_simulate_plays_all_operations() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(1, 8):
        _, outcomes = played(node_life(seed))
        for outcome in outcomes:
            kinds[type(outcome.step).__name__] += 1
            kinds["refused"] += bool(outcome.rejection)
            kinds["retried"] += bool(outcome.retried)
            kinds["policies"] += bool(outcome.found.memory_policies)
            assert check_accounting(outcome.accounting) == ()
    assert len(kinds) == 8
    assert min(kinds.values()) > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_life_is_the_same_over_nri(scope: str, policy: str, seed: int) -> None:
    scenario, outcomes = played(with_policy(seed, policy, scope))
    assert compare_over_nri(scenario, outcomes, "s") == []
    assert any(outcome.rejection for outcome in outcomes)
