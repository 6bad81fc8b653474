"""A host for the checks of doctor."""

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.observe.files import lock_file_of
from tests.cli.doctor.host_files import STATE, HostFiles


@pytest.fixture(name="host_files")
def _host_files(tmp_path: Path) -> HostFiles:
    return HostFiles(tmp_path)


@pytest.fixture(name="good_host")
def _good_host(host_files: HostFiles) -> Iterator[HostFiles]:
    """Yield a good host whose lock is held."""
    with host_files.path(str(lock_file_of(Path(STATE)))).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield host_files
