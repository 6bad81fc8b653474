"""Random lives of a host with claims; ``claim_life`` runs more of them."""

import pytest

from tests.property.claim_life import Life


@pytest.mark.parametrize("seed", range(200))
def test_a_life(seed: int) -> None:
    Life(seed).run()
