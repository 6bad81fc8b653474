"""The hook program of resource claims, which the single executable file contains.

packaging/claim_hook describes it. The packages install it themselves; a Python package has none.
"""

import importlib
import os

from nri_numamem.cli.host_files import Host
from nri_numamem.config.claims import HOOK_PROGRAM
from nri_numamem.version import is_single_file

PATH = HOOK_PROGRAM
"""Where packages and `install` put it."""


def carried() -> bytes | None:
    """Return the hook program that the running program contains; None if it contains none."""
    if not is_single_file():
        return None
    program: bytes = importlib.import_module("single_file_claim_hook").PROGRAM
    return program


def missing(host: Host, path: str = PATH) -> bytes | None:
    """Return the hook program if a host lacks it at a path; None if this program has none."""
    program, file = carried(), host.entry(path)
    is_there = file.is_file() and not file.is_symlink() and os.access(file, os.X_OK)
    return None if is_there and file.read_bytes() == program else program


def is_read_only(host: Host) -> bool:
    """Return whether PATH is on a read-only file system."""
    folder = next(parent for parent in host.entry(PATH).parents if parent.exists())
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
