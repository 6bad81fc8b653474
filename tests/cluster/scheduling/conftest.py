"""One control plane for all tests of scheduling, and two empty workers for each test.

Tests of the exporter have one worker and an exporter.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.export.exporter_process import ExporterProcess
from tests.cluster.kubernetes.api import Api, wait_for
from tests.cluster.kubernetes.servers import ControlPlane
from tests.cluster.scheduling import documented
from tests.cluster.scheduling.account import Account, StartExporter
from tests.cluster.scheduling.objects import (
    BINDINGS,
    NAMESPACE,
    PODS,
    ROLES,
    create_crd,
    create_namespace,
)
from tests.cluster.scheduling.worker import Worker
from tests.conformance.scheduler_check import crd

SUMMARY = pytest.StashKey[list[str]]()
"""Lines that the end of the run shows."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SUMMARY] = []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the figures of the control plane."""
    lines = config.stash.get(SUMMARY, [])
    if lines:
        terminalreporter.section("control plane")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ControlPlane]:
    """Start etcd, an API server with the CRD, and the scheduler of docs/scheduler.md."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    lines = request.config.stash[SUMMARY]
    began_s = time.monotonic()
    try:
        plane.start()
        lines.append(f"the API server was ready after {time.monotonic() - began_s:.1f} s")
        create_crd(plane.admin, crd())
        create_namespace(plane.admin, NAMESPACE)
        plane.admin.create(ROLES, documented.scheduler_role())
        plane.admin.create(BINDINGS, documented.scheduler_binding())
        configuration = documented.scheduler_configuration()
        scheduler = plane.start_topology_scheduler("kube-scheduler", configuration)
        yield plane
        servers = (plane.etcd, plane.api_server, scheduler)
        lines += [f"{each.log.stem}: at most {each.peak_mib()} MiB resident" for each in servers]
    finally:
        plane.close()
    lines.append(f"it ran {time.monotonic() - began_s:.0f} s")


@pytest.fixture
def admin(control_plane: ControlPlane) -> Api:
    return control_plane.admin


@pytest.fixture
def workers(admin: Api, tmp_path: Path) -> Iterator[list[Worker]]:
    """Return two hosts on which no pod runs; the plugin runs on them.

    Their Nodes and all pods are deleted afterwards.
    """
    with ExitStack() as stack:
        stack.callback(_delete_pods, admin)
        found = []
        for name in ("worker-1", "worker-2"):
            worker = Worker(tmp_path / name, name, admin)
            stack.callback(worker.remove)
            stack.enter_context(worker.running())
            found.append(worker)
        yield found


def _delete_pods(admin: Api) -> None:
    for pod in admin.get(PODS)["items"]:
        admin.delete(f"{PODS}/{pod['metadata']['name']}", missing_ok=True)


@pytest.fixture
def worker(workers: list[Worker]) -> Worker:
    """Return a host with 3 + 3 GiB free, the only one."""
    workers.pop().remove()
    (worker,) = workers
    for uid in ("first", "second"):
        worker.start_pod(uid, 5)
    return worker


@pytest.fixture
def account(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Account]:
    """Return a service account without permissions."""
    account = Account(control_plane, tmp_path / "account")
    yield account
    account.remove()


@pytest.fixture
def start_exporter(worker: Worker, account: Account, tmp_path: Path) -> Iterator[StartExporter]:
    """Return a function that starts the exporter as in a pod on the host."""
    with ExitStack() as stack:

        def start() -> ExporterProcess:
            exporter = ExporterProcess(
                tmp_path,
                worker,
                *account.options(),
                environment=account.environment(worker.name),
            )
            return stack.enter_context(exporter)

        yield start


@pytest.fixture
def exporter(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api
) -> ExporterProcess:
    """Start the exporter with the documented role, and wait until it has written the object."""
    account.permit(documented.exporter_role())
    exporter = start_exporter()
    wait_for(lambda: admin.exists(worker.path), "the first write")
    return exporter


@pytest.fixture
def kubelet_root() -> Iterator[Path]:
    """Yield a kubelet's directory with a short path, because it gets sockets."""
    with tempfile.TemporaryDirectory(prefix="k") as name:
        (Path(name) / "plugins_registry").mkdir()
        yield Path(name)
