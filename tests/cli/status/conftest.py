"""A host with a running plugin and four pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live.live_host import GI, NOW_S, LiveHost, four_nodes

RESERVED = "reservedMemory: [{numaNode: 0, limits: {memory: 2Gi}}]\n"


@pytest.fixture(autouse=True)
def _fixed_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("time.time", lambda: NOW_S)
    for module in ("screen", "document"):
        monkeypatch.setattr(f"nri_numamem.cli.status.{module}.VERSION", "1.2.3")


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    host = LiveHost(tmp_path, four_nodes(), RESERVED)
    host.run("db-1", "postgres", 40 * GI, used={0: 30 * GI})
    host.run("upf-7", "dpdk", 24 * GI, pages=2, used={1: 6 * GI, 0: 3 * GI})
    host.run("train-3", "worker", 90 * GI, used={2: 50 * GI, 3: 8 * GI})
    backup, _plan = host.create(host.sandbox("db-2"), "backup", 8 * GI)
    host.write_cgroup("db-2", backup.container_id, "0", 8 * GI)
    host.stop("db-2", backup)
    host.save()
    host.describe()
    for path in ("burstable/podb1", "burstable/podb2", "besteffort/podx"):
        (host.cgroups / "kubepods" / path).mkdir(parents=True)
    return host


@pytest.fixture(name="running_host")
def _running_host(host: LiveHost) -> Iterator[LiveHost]:
    with host.running():
        yield host
