"""A small file system that can be frozen: an ext4 image on a loop device.

A thread that writes to a frozen file system waits in the kernel and cannot be killed. So a process
of its own freezes and thaws the file system, also if this process is killed meanwhile. The next
run removes what a killed run leaves (`remove_leftovers`). The process that mounted an image holds
a lock on it.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

SIZE_BYTES = 8 << 20
_IMAGE = "faults-disk.img"

_FITHAW = 0xC0045878  # linux/fs.h

# Ignores what ends a run from the keyboard. The path is in the environment only, because the
# plugin's processes are found by it.
_FREEZE = """
trap '' HUP INT TERM
fsfreeze -f "$DISK" || exit 1
echo frozen
sleep "$SECONDS_FROZEN"
fsfreeze -u "$DISK" 2>/dev/null
"""

_MKFS = ("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,nodiscard")


class LoopDiskError(Exception):
    """A file system cannot be mounted or frozen here; the text has the reason, in one line."""


class LoopDisk:
    """A mounted file system. Every method may be called at any time, in any order."""

    def __init__(self, folder: Path) -> None:
        """Mount a new file system over an empty directory; the image is made beside it.

        Raises LoopDiskError.
        """
        self._folder = folder
        self._image = folder.with_name(_IMAGE)
        self._freezer: subprocess.Popen[str] | None = None
        self._is_mounted = False
        self._lock = os.open(self._image, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.truncate(self._lock, SIZE_BYTES)
            _run(*_MKFS, str(self._image))
            _run("mount", "-o", "loop,noatime", str(self._image), str(folder))
            self._is_mounted = True
            (folder / "lost+found").rmdir()
        except LoopDiskError:
            self.unmount()
            raise

    def freeze(self, seconds: float) -> None:
        """Freeze the file system for this time. Raises LoopDiskError."""
        self.thaw()
        environment = {**os.environ, "DISK": str(self._folder), "SECONDS_FROZEN": str(seconds)}
        freezer = subprocess.Popen(
            ["sh", "-c", _FREEZE],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._freezer = freezer
        assert freezer.stdout is not None
        line = freezer.stdout.readline()
        if line != "frozen\n":
            self.thaw()
            raise LoopDiskError(line.strip() or "fsfreeze failed")

    def wait_thawed(self) -> None:
        """Wait until the time of a freeze is over."""
        if self._freezer is not None:
            self._freezer.communicate()
            self._freezer = None

    def thaw(self) -> None:
        """Thaw a frozen file system now."""
        if self._freezer is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._freezer.pid, signal.SIGKILL)
            self.wait_thawed()
            _thaw(self._folder)

    def unmount(self) -> None:
        """Thaw and unmount; the image is removed."""
        self.thaw()
        if self._is_mounted:
            # The loop device is freed with its last user.
            _run("umount", "-l", str(self._folder))
            self._is_mounted = False
        self._image.unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_leftovers(memory: Path) -> list[str]:
    """Thaw and unmount what killed runs left; return the images, sorted.

    An image is removed with the directory of its life, `faults-SEED-*`; `memory` has such
    directories.
    """
    devices: dict[Path, Path | None] = dict.fromkeys(memory.glob(f"faults-*/*/{_IMAGE}"))
    for file in Path("/sys").glob("block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            image = Path(file.read_text().rstrip("\n").removesuffix(" (deleted)"))
            if image.name == _IMAGE:
                devices[image] = Path("/dev") / file.parts[-3]
    abandoned = sorted(image for image in devices if _is_abandoned(image))
    for image in abandoned:
        device = devices[image]
        if device is not None:
            _free(device)
        image.unlink(missing_ok=True)
        for life in image.parents:
            if life.name.startswith("faults-"):
                shutil.rmtree(life, ignore_errors=True)
    return [str(image) for image in abandoned]


def _is_abandoned(image: Path) -> bool:
    """Return whether no process has mounted the image; it may be removed already."""
    try:
        with image.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        pass
    return True


def _free(device: Path) -> None:
    """Thaw the file system of a loop device, and free the device.

    A frozen file system exists until its thaw, even if it is mounted nowhere. Mounting the device
    again gives the same one.
    """
    folder = Path(tempfile.mkdtemp(prefix="faults-thaw-"))
    try:
        with contextlib.suppress(LoopDiskError):
            _run("mount", str(device), str(folder))
            _thaw(folder)
            _run("umount", "-l", str(folder))
        for mount in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = mount.split()
            if str(device) in fields[fields.index("-") :]:
                with contextlib.suppress(LoopDiskError):
                    _run("umount", "-l", fields[4])
    finally:
        folder.rmdir()


def _thaw(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # it is not frozen
            fcntl.ioctl(descriptor, _FITHAW, 0)
    finally:
        os.close(descriptor)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LoopDiskError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).split("\n")
        raise LoopDiskError(lines[0].strip() or f"{command[0]} failed")
