"""The exporter of the single executable file writes to an API server, from a bare root."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.export.export_host import ExportHost
from tests.cli.export.exporter_process import ExporterProcess, in_pod
from tests.kubernetes_api import CERTIFICATES, KubernetesApi
from tests.packaging import bare_root
from tests.packaging.single_file_program import OWN_MOUNTS, PROGRAM, needs_program, needs_root

pytestmark = [needs_program, needs_root, pytest.mark.slow, pytest.mark.timeout(900)]

# Arguments: a root, a folder that gets the same path in it, and the environment and the command.
# The root is read-only.
_ENTER = """
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1$2"
mount -o remount,ro,bind "$1"
shift 2
exec env -i "$@"
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ExportHost]:
    host = ExportHost(tmp_path / "host")
    host.run_pod("a")
    host.save()
    with host.running():
        yield host


@pytest.fixture
def root(tmp_path: Path, host: ExportHost) -> Path:
    """Return a root with the program and a C library: no certificates, no Python, no device."""
    folder = tmp_path / "root"
    bare_root.make(folder, PROGRAM)
    (folder / host.root.relative_to("/")).mkdir(parents=True)
    return folder


def in_root(root: Path, host: ExportHost, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the command of the program in the root; it has no other environment."""
    chroot = shutil.which("chroot")
    assert chroot is not None
    variables = [f"{name}={value}" for name, value in environment.items()]
    arguments = (root, host.root, *variables, chroot, root, "/nri-numamem")
    return [*OWN_MOUNTS, _ENTER, "sh", *map(str, arguments)]


def test_it_writes_with_a_service_account(root: Path, host: ExportHost, tmp_path: Path) -> None:
    with KubernetesApi() as api:
        environment, options = in_pod(api, host.root)
        command = in_root(root, host, environment)
        with ExporterProcess(tmp_path, host, *options, command=command) as exporter:
            exporter.wait_event("topology_written")
            assert exporter.stop() == 0
        zones = [zone["name"] for zone in api.objects["worker-1"]["zones"]]
        assert zones == [f"node-{number}" for number in range(4)]
        assert {seen.token for seen in api.seen} == {"secret"}


def test_it_writes_with_a_client_certificate(root: Path, host: ExportHost, tmp_path: Path) -> None:
    certificates = host.root / "certificates"
    shutil.copytree(CERTIFICATES, certificates)
    with KubernetesApi(client_certificate=True) as api:
        api.tokens = set()
        user = {
            "client-certificate": str(certificates / "client.crt"),
            "client-key": str(certificates / "client.key"),
        }
        cluster = {"certificate-authority": str(certificates / "ca.crt")}
        kubeconfig = api.write_kubeconfig(host.root / "kubeconfig", user, **cluster)
        options = ("--kubeconfig", str(kubeconfig), "--node-name", "worker-1")
        command = in_root(root, host, {})
        with ExporterProcess(tmp_path, host, *options, command=command) as exporter:
            exporter.wait_event("topology_written")
            assert exporter.stop() == 0
        assert "worker-1" in api.objects


def test_a_server_that_it_cannot_verify_gets_nothing(
    root: Path, host: ExportHost, tmp_path: Path
) -> None:
    with KubernetesApi() as api:
        environment, options = in_pod(api, host.root)
        shutil.copyfile(CERTIFICATES / "other-ca.crt", host.root / "account/ca.crt")
        command = in_root(root, host, environment)
        with ExporterProcess(tmp_path, host, *options, command=command) as exporter:
            record = exporter.wait_event("topology_write_failed")
            assert exporter.stop() == 0
        assert api.seen == []
    assert record["failure"] == "unreachable"
    assert record["cause"].endswith(
        "its certificate is not trusted: unable to get local issuer certificate"
    )
