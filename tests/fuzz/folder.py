"""One temporary folder per process, for targets that read files."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path


@functools.cache
def _top() -> Path:
    top = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    return top


def empty_folder() -> Path:
    """Return an empty folder; remove the folder of the previous call."""
    folder = _top() / "input"
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder
