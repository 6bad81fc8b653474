"""The virtual machine of these tests: Debian sid with containerd, the plugin and the kubelet.

Image, machine and the framework of the guest are those of tests/e2e. An API server for the kubelet
runs on the machine's host.
"""

import base64
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import boot
from tests.cluster.guest import catalog, scenarios_dra
from tests.cluster.guest.checks import Phase
from tests.cluster.kubernetes import programs
from tests.cluster.kubernetes.servers import ADMIN, ControlPlane
from tests.e2e import artefact_builds, runs

_SUITE = "sid"
_OUT = runs.ROOT / "build" / "cluster"
_GUEST = Path(__file__).parent / "guest"

# The guest reaches the host's loopback interface at this address.
_HOST_ADDRESS = "10.0.2.2"
_NETWORK = (
    "-netdev",
    "user,id=network",
    "-device",
    "virtio-net-pci,netdev=network,romfile=,bus=pci.0",
)


def run(names: Iterable[str]) -> runs.SuiteReport:
    """Boot the machine with the phases of these names; build what is missing."""
    _OUT.mkdir(parents=True, exist_ok=True)
    phases = [phase for phase in catalog.PHASES if phase.name in set(names)]
    artefacts = artefact_builds.programs(_OUT / "packages")
    artefacts["kubelet"] = programs.built(programs.KUBELET)
    if not any(phase.has_api_server for phase in phases):
        return _run(phases, artefacts)
    with _control_plane() as kubeconfig:
        return _run(phases, artefacts | {"kubeconfig": kubeconfig})


def _run(phases: Iterable[Phase], artefacts: dict[str, Path]) -> runs.SuiteReport:
    drive = boot.write_drive(artefacts, [phase.name for phase in phases], _OUT, _GUEST)
    device = boot.accelerator(scenarios_dra.DEVICE_NODE, scenarios_dra.PORT)
    return runs.run(_SUITE, drive, _OUT, (*_NETWORK, *device))


@contextmanager
def _control_plane() -> Iterator[Path]:
    """Run etcd and an API server; yield a kubeconfig for the guest."""
    folder = _OUT / "control-plane"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    servers = ControlPlane(folder)
    try:
        servers.start()
        yield _kubeconfig(servers)
    finally:
        servers.close()


def _kubeconfig(servers: ControlPlane) -> Path:
    """Write the administrator's kubeconfig; the server's certificate is for 127.0.0.1."""
    cluster = {
        "server": f"https://{_HOST_ADDRESS}:{servers.port}",
        "tls-server-name": "127.0.0.1",
        "certificate-authority-data": base64.b64encode(servers.authority.read_bytes()).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": servers.tokens[ADMIN]}}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "context",
    }
    path = servers.root / "guest.kubeconfig"
    path.write_text(json.dumps(document), encoding="ascii")
    return path
