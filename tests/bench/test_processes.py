import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bench.processes import Observation, Usage, descendants, observe, resident_bytes


def set_thread(proc: Path, pid: int, thread: int, wakeups: int) -> None:
    """Let a process have a thread that woke up so often."""
    folder = proc / str(pid) / "task" / str(thread)
    folder.mkdir(exist_ok=True)
    (folder / "status").write_text(
        f"voluntary_ctxt_switches:\t{wakeups}\nnonvoluntary_ctxt_switches:\t99\n"
    )


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc with process 7, its child 8 with an unusual name, and grandchild 9."""
    for pid, name, parent in ((7, "runtime", 1), (8, "a) b (c", 7), (9, "supervisor", 8)):
        folder = tmp_path / str(pid)
        (folder / "task").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 0 0 0\n")
        (folder / "status").write_text("Name: x\nVmRSS:\t  12 kB\n")
        set_thread(tmp_path, pid, pid, 5)
        set_thread(tmp_path, pid, pid + 100, 6)
    (tmp_path / "4242").mkdir()  # the process has just ended
    (tmp_path / "self").mkdir()
    return tmp_path


def test_resident_memory_is_in_bytes(proc: Path) -> None:
    assert resident_bytes(8, proc) == 12 * 1024


def test_wakeups_before_an_observation_do_not_count(proc: Path) -> None:
    observation = Observation(8, proc)
    observation.read()
    assert observation.usage() == Usage(cpu_s=0.0, wakeups=0)


def test_wakeups_of_all_threads_count(proc: Path) -> None:
    observation = Observation(8, proc)
    set_thread(proc, 8, 8, 7)
    set_thread(proc, 8, 999, 3)  # a thread that started meanwhile
    observation.read()
    assert observation.usage().wakeups == 2 + 3


def test_wakeups_of_an_ended_thread_count(proc: Path) -> None:
    observation = Observation(8, proc)
    set_thread(proc, 8, 108, 10)
    observation.read()
    shutil.rmtree(proc / "8" / "task" / "108")
    set_thread(proc, 8, 8, 6)
    observation.read()
    assert observation.usage().wakeups == 4 + 1


def test_a_thread_that_has_just_ended_is_skipped(proc: Path) -> None:
    observation = Observation(8, proc)
    (proc / "8" / "task" / "999").mkdir()
    observation.read()
    assert observation.usage().wakeups == 0


def test_cpu_time_is_in_seconds(proc: Path) -> None:
    observation = Observation(8, proc)
    ticks = os.sysconf("SC_CLK_TCK")
    stat = f"8 (a) b (c) S 7 0 0 0 0 0 0 0 0 0 {3 * ticks} {ticks} 0\n"
    (proc / "8" / "stat").write_text(stat)
    assert observation.usage().cpu_s == 4.0


def test_processes_are_read_at_the_end_of_the_time(proc: Path) -> None:
    observation = Observation(8, proc)
    set_thread(proc, 8, 8, 7)
    observe([observation], 0.01)
    assert observation.usage().wakeups == 2


def test_children_of_children_are_found(proc: Path) -> None:
    assert descendants(7, proc) == [8, 9]
    assert descendants(9, proc) == []


def test_the_kernels_files_are_readable() -> None:
    pid = os.getpid()
    observation = Observation(pid)
    observation.read()
    assert resident_bytes(pid) > 1 << 20
    assert observation.usage().wakeups >= 0
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in descendants(pid)
        assert descendants(child.pid) == []
        child.kill()
