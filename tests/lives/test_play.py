"""A few virtual lives, and the exact replay of a seed."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lives.play import MIN_CALLS, Report, play
from tests.lives.run import description, table

ROOT = Path(__file__).resolve().parents[2]

_DIGEST = """
import sys
from tests.lives.test_play import digest
from tests.lives.play import play
print(digest(play(int(sys.argv[1]))))
"""


def digest(report: Report) -> str:
    """Return a hash of everything that happened in a life, timing included."""
    # Files of a life are in a directory with a random name.
    shown = repr((report.history, report.virtual_s, report.calls, report.problem))
    records = [
        {name: value for name, value in record.items() if name not in ("path", "exception")}
        for record in report.records
    ]
    text = re.sub(r"/[^ ]*/lives-[^/]+", "", json.dumps(records))
    return hashlib.sha256(f"{shown}{text}".encode()).hexdigest()


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_life_without_failure(seed: int) -> None:
    report = play(seed)
    assert report.problem == "", "\n".join([*description(report), report.problem])
    assert report.calls >= MIN_CALLS
    assert report.connections > 1
    assert report.faults
    lines = "\n".join(table([report], 1.0))
    assert all(fault in lines for fault in report.faults)
    assert "failed: none" in lines


def test_a_seed_replays_exactly() -> None:
    assert digest(play(3)) == digest(play(3))


def test_a_life_does_not_depend_on_hash_order() -> None:
    expected = digest(play(5))
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST, "5"],
            cwd=ROOT,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


def test_other_seeds_give_other_lives() -> None:
    assert digest(play(1)) != digest(play(2))


def test_some_lives_have_network_devices_as_hints() -> None:
    records = (record for seed in range(1, 30) for record in play(seed).records)
    assert any(record["event"] == "network_hints_found" for record in records)
