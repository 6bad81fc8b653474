import os
from pathlib import Path

import pytest

from tests.bench.processes import Usage, descendants, resident_bytes, usage


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc with process 7, its child 8 with an unusual name, and grandchild 9."""
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, name, parent in ((7, "runtime", 1), (8, "a) b (c", 7), (9, "supervisor", 8)):
        folder = tmp_path / str(pid)
        times = f"{3 * ticks} {ticks}"
        (folder / "task").mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {times} 0\n")
        (folder / "status").write_text("Name: x\nVmRSS:\t  12 kB\n")
        for thread, switches in ((pid, 5), (pid + 100, 6)):
            (folder / "task" / str(thread)).mkdir()
            (folder / "task" / str(thread) / "status").write_text(
                f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t99\n"
            )
    (tmp_path / "4242").mkdir()  # the process has just ended
    (tmp_path / "self").mkdir()
    return tmp_path


def test_resident_memory_is_in_bytes(proc: Path) -> None:
    assert resident_bytes(8, proc) == 12 * 1024


def test_wakeups_of_all_threads_count(proc: Path) -> None:
    assert usage(8, proc) == Usage(cpu_s=4.0, wakeups=11)


def test_a_thread_that_has_just_ended_is_skipped(proc: Path) -> None:
    (proc / "8" / "task" / "999").mkdir()
    assert usage(8, proc) == Usage(cpu_s=4.0, wakeups=11)


def test_usage_since_an_earlier_reading() -> None:
    assert Usage(3.0, 8).since(Usage(1.0, 5)) == Usage(2.0, 3)


def test_children_of_children_are_found(proc: Path) -> None:
    assert descendants(7, proc) == [8, 9]
    assert descendants(9, proc) == []


def test_the_kernels_files_are_readable() -> None:
    pid = os.getpid()
    assert resident_bytes(pid) > 1 << 20
    assert usage(pid).cpu_s > 0
    assert descendants(pid) == []
