"""A handful of lives, so that the machinery of the fault run is known to work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.play import play
from tests.faults.plugin import adopt_orphans
from tests.faults.run import story, table
from tests.faults.setting import EMBEDDED

# A launched plugin, an external one with CRI-O's habits, one with containerd's.
SEEDS = (14, 27, 33)
STEPS = (10, 13)


@pytest.fixture
def orphans() -> Iterator[None]:
    adopt_orphans()
    yield
    adopt_orphans(adopt=False)


@pytest.mark.usefixtures("orphans")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_goes_well(seed: int, tmp_path: Path) -> None:
    for _ in range(3):
        report = play(seed, tmp_path / "kept", EMBEDDED, steps=STEPS)
        if not report.is_unclear:
            break
    assert report.problem == "", "\n".join([*story(report), report.problem])
    assert report.calls > 10
    assert report.connections > 1
    assert not (tmp_path / "kept").exists()  # only what failed is kept
    lines = "\n".join(table([report]))
    assert report.side in lines
    assert all(fault in lines for fault in report.faults)
