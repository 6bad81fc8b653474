"""A few short lives, which test the fault run itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import play as play_module
from tests.faults.parameters import FAKE
from tests.faults.play import Report, play
from tests.faults.plugin import become_subreaper
from tests.faults.run import failures, history, table

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


@pytest.mark.usefixtures("orphans")
def test_a_bug_of_the_program_is_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(play_module, "run_life", fail)
    report = play(SEEDS[1], tmp_path / "failed", FAKE, steps=STEPS)
    assert "Traceback" in report.problem
    assert failures([report]) == [f"failed: life {SEEDS[1]}: ValueError('broken')"]


def test_failed_lives_are_listed_by_seed() -> None:
    reports = [Report(9, problem="second\naccounting"), Report(3), Report(5, problem="first")]
    assert failures(reports) == ["failed: life 5: first", "failed: life 9: second"]
