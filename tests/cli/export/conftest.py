"""The host that most tests of the exporter run on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.export.export_host import ExportHost


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[ExportHost]:
    """Yield a host with one pod, whose plugin runs."""
    host = ExportHost(tmp_path)
    host.run_pod("a")
    host.save()
    with host.running():
        yield host
