"""A few short lives, which test the fault run itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.parameters import FAKE
from tests.faults.play import play
from tests.faults.plugin import become_subreaper
from tests.faults.run import history, table

# A launched plugin, an external one with CRI-O, one with containerd.
SEEDS = (22, 13, 16)
STEPS = (10, 13)


@pytest.fixture
def orphans() -> Iterator[None]:
    become_subreaper()
    yield
    become_subreaper(enabled=False)


@pytest.mark.usefixtures("orphans")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_has_no_failure(seed: int, tmp_path: Path) -> None:
    for _ in range(3):
        report = play(seed, tmp_path / "failed", FAKE, steps=STEPS)
        if not report.is_inconclusive:
            break
    assert report.problem == "", "\n".join([*history(report), report.problem])
    assert report.calls > 10
    assert report.connections > 1
    assert not (tmp_path / "failed").exists()  # only failed lives leave files
    lines = "\n".join(table([report]))
    assert report.side in lines
    assert all(fault in lines for fault in report.faults)
