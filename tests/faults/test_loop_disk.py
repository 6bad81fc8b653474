"""File systems that can be frozen. Needs root and a loop device."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.loop_disk import SIZE_BYTES, LoopDisk, LoopDiskError, remove_leftovers

# Freezes a file system for a minute and dies, without its clean-up.
_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.faults.loop_disk import LoopDisk
disk = LoopDisk(Path(sys.argv[1]))
disk.freeze(60)
print(disk._freezer.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "faults-0-test" / "host" / "disk"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def disk(folder: Path) -> Iterator[LoopDisk]:
    try:
        disk = LoopDisk(folder)
    except LoopDiskError as error:
        pytest.skip(f"no file system can be frozen here: {error}")
    yield disk
    disk.unmount()


def write_in_thread(file: Path) -> threading.Thread:
    thread = threading.Thread(target=file.write_text, args=("text",), daemon=True)
    thread.start()
    return thread


def is_mounted(folder: Path) -> bool:
    return folder.stat().st_dev != folder.parent.stat().st_dev


def loop_devices(folder: Path) -> list[str]:
    files = Path("/sys").glob("block/loop*/loop/backing_file")
    return [str(file) for file in files if str(folder.parent) in file.read_text()]


def test_a_writer_waits_for_the_thaw_and_a_reader_does_not(disk: LoopDisk, folder: Path) -> None:
    (folder / "file").write_text("before")
    disk.freeze(60)
    thread = write_in_thread(folder / "other")
    assert (folder / "file").read_text() == "before"
    assert thread.is_alive()
    disk.thaw()
    thread.join()
    assert (folder / "other").read_text() == "text"


def test_a_freeze_ends_by_itself(disk: LoopDisk, folder: Path) -> None:
    disk.freeze(0.1)
    disk.wait_thawed()
    (folder / "file").write_text("text")
    disk.thaw()  # changes nothing


def test_a_frozen_file_system_is_thawed_and_unmounted(disk: LoopDisk, folder: Path) -> None:
    assert is_mounted(folder)
    assert 0 < os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize <= SIZE_BYTES
    disk.freeze(60)
    thread = write_in_thread(folder / "file")
    disk.unmount()
    thread.join()
    assert not is_mounted(folder)
    disk.unmount()  # changes nothing
    assert list(folder.parent.iterdir()) == [folder]


def test_a_failed_freeze_leaves_nothing_frozen(disk: LoopDisk, folder: Path) -> None:
    subprocess.run(["fsfreeze", "-f", folder], check=True)
    with pytest.raises(LoopDiskError, match="busy"):
        disk.freeze(60)
    (folder / "file").write_text("text")


def test_a_directory_without_loop_devices_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(LoopDiskError, match=r"^mkfs.ext4: No such file or directory$"):
        LoopDisk(folder)
    assert list(folder.parent.iterdir()) == [folder]


def test_the_next_run_removes_what_a_killed_one_leaves(disk: LoopDisk, folder: Path) -> None:
    other = folder.parents[2] / "faults-1-test" / "host" / "disk"
    other.mkdir(parents=True)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, other],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    os.killpg(int(killed.stdout), signal.SIGKILL)  # what would have thawed the file system
    thread = write_in_thread(other / "file")
    unmounted = folder.parents[2] / "faults-2-test" / "host"
    unmounted.mkdir(parents=True)
    (unmounted / "faults-disk.img").touch()
    removed = remove_leftovers(folder.parents[2])
    thread.join()
    assert removed == [str(part / "faults-disk.img") for part in (other.parent, unmounted)]
    assert [part.name for part in folder.parents[2].iterdir()] == ["faults-0-test"]
    wait_for(lambda: not loop_devices(other))
    (folder / "file").write_text("text")  # a run that lives is left alone
    assert remove_leftovers(folder.parents[2]) == []


def test_a_killed_process_leaves_no_frozen_file_system(disk: LoopDisk, folder: Path) -> None:
    """The process that thaws survives; it has its own session."""
    disk.freeze(1)
    freezer = disk._freezer
    assert freezer is not None
    assert os.getsid(freezer.pid) == freezer.pid
    thread = write_in_thread(folder / "file")
    thread.join()
    disk.wait_thawed()


def wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
