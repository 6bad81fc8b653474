"""Programs that the guest starts."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.machines.guest.processes import first_victim, output, unprotected

_SCORE = "cat /proc/self/oom_score_adj"


def test_output_is_what_a_program_prints() -> None:
    assert output("sh", "-c", "echo a; echo b >&2") == "a\nb\n"


def test_a_program_that_fails_raises_with_its_output() -> None:
    with pytest.raises(RuntimeError, match="sh -c echo why; exit 3: status 3: why"):
        output("sh", "-c", "echo why; exit 3")


def test_an_unprotected_program_has_the_usual_score() -> None:
    script = f"echo 500 >/proc/self/oom_score_adj; exec {' '.join(unprotected('sh', '-c', 'x'))}"
    done = subprocess.run(
        ["sh", "-c", script.replace("sh -c x", _SCORE)], capture_output=True, check=True
    )
    assert done.stdout == b"0\n"


def test_a_first_victim_has_the_highest_score_and_ends_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "score"
    with first_victim(
        f"{_SCORE} >{file}.new; mv {file}.new {file}; sleep 600 & echo $! >{file}.pid; wait"
    ):
        deadline_s = time.monotonic() + 60
        while not (tmp_path / "score.pid").exists() or not (tmp_path / "score.pid").read_text():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert file.read_text() == "1000\n"
        pid = int((tmp_path / "score.pid").read_text())
    while Path(f"/proc/{pid}/stat").exists():
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
