"""Evictions by the agent on virtual hosts; ``rebalancing_life`` runs more of them."""

import pytest

from nri_numamem.cli.rebalance.carry_out import Result
from tests.property.rebalancing_life import run


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_with_faults_nothing_set_aside_is_taken_and_every_plan_ends(first: int) -> None:
    sums = run(range(first, first + 10), has_faults=True)
    assert sums.plans >= sums.with_plan > 3


def test_without_faults_refused_and_evicted_pods_run() -> None:
    sums = run(range(10_000, 10_040), has_faults=False)
    assert sums.with_plan > 20
    assert sums.results[Result.DONE.value] >= 0.95 * sums.plans
    assert sums.ran >= 0.95 * sums.plans
    assert sums.again >= 0.95 * sums.evicted
