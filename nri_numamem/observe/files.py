"""Files of the state directory: bounded reads that never wait, atomic replacement, errors."""

import contextlib
import errno
import os
import stat
import traceback
from pathlib import Path

from nri_numamem.config.settings import STATE_FILE
from nri_numamem.observe.log.sinks import write_all

# Only root may read pod UIDs and amounts.
FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700

_DEFAULT_NAME = Path(STATE_FILE).name
# Before 0.2.0. The kubelet's state file has this name too.
_FORMER_NAME = "memory_manager_state"


def beside(state_file: Path, name: str) -> Path:
    """Return the path of another file of the plugin that has this state file.

    State files in one directory have different names, so `name` has that of the state file as a
    prefix, unless it is the default.
    """
    is_default = state_file.name in (_DEFAULT_NAME, _FORMER_NAME)
    return state_file.with_name(name if is_default else f"{state_file.name}.{name}")


def former_of(state_file: Path) -> Path | None:
    """Return where a state file was before 0.2.0; None if its name has not changed.

    A file there may be the kubelet's.
    """
    return state_file.with_name(_FORMER_NAME) if state_file.name == _DEFAULT_NAME else None


def lock_file_of(state_file: Path) -> Path:
    """Return the path of the file that an instance with this state file locks.

    The default file's lock has the name from before 0.2.0: in a rolling update, of an instance of
    that release and one of this release only one serves.
    """
    name = _FORMER_NAME if state_file.name == _DEFAULT_NAME else state_file.name
    return state_file.with_name(f"{name}.lock")


def reason_of(error: OSError) -> str:
    """Return the system's text for an error."""
    return error.strerror or str(error)


def traceback_of(error: BaseException) -> str:
    """Return the text of an exception with its traceback."""
    return "".join(traceback.format_exception(error)).rstrip()


def kind_and_text(error: Exception) -> tuple[str, str]:
    """Return the name and the system's text of an OSError; class and traceback of a bug."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, "unknown"), reason_of(error)
    return type(error).__name__, traceback_of(error)


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """Return the contents, at most one byte more than the limit; never waits for a pipe.

    Raises OSError, also for anything but a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(limit_bytes + 1)


def make_directory(path: Path) -> None:
    """Make the directory of a file, for root only."""
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the file at `path`; after an OSError the old one is still there."""
    make_directory(path)
    # Always the same name, so that at most one file of a killed process is left.
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, FILE_MODE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()  # frees the space if the disk is full
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
