"""The virtual machine of these tests: Debian sid with containerd, the plugin and the kubelet.

An API server for the kubelet runs on the machine's host, and beside it the scheduler and the
controllers that resource claims need.
"""

import base64
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster import chart_objects
from tests.cluster.cri.machine import pinns
from tests.cluster.guest import phases, scenarios_dra
from tests.cluster.kubernetes import programs
from tests.cluster.kubernetes.servers import ADMIN, ControlPlane
from tests.machines import artefact_builds, drive
from tests.machines.image import CRI
from tests.machines.progress import Progress
from tests.machines.suite import Contents, Suite, checks_of
from tests.machines.vm import accelerator

# The guest reaches the host's loopback interface at this address.
_HOST_ADDRESS = "10.0.2.2"
_CONTROLLERS = ("resourceclaim-controller",)
_UNIT_DOCUMENT = drive.ROOT / "docs" / "systemd-unit.md"
_DROP_IN = re.compile(
    r"^```ini\n(\[Service\]\nStateDirectory=nri-numamem/claims.*?)^```$", re.MULTILINE | re.DOTALL
)
_NETWORK = (
    "-netdev",
    "user,id=network",
    "-device",
    "virtio-net-pci,netdev=network,romfile=,bus=pci.0",
)


@contextmanager
def _contents(names: Sequence[str], progress: Progress) -> Iterator[Contents]:
    """Build what is missing, and run an API server for the phases that need one."""
    artefacts = artefact_builds.programs(SUITE.out / "packages", progress)
    artefacts["kubelet"] = programs.built(programs.KUBELET, progress)
    if any(phase.runtime == "crio" for phase in phases.PHASES if phase.name in names):
        artefacts["crio"] = programs.built(programs.CRIO, progress)
        artefacts["pinns"] = pinns(SUITE.out)
    device = accelerator(scenarios_dra.DEVICE_NODE, scenarios_dra.PORT)
    with ExitStack() as stack:
        chosen = [phase for phase in phases.PHASES if phase.name in names]
        if any(phase.has_api_server for phase in chosen):
            has_claims = any(phase.has_claims for phase in chosen)
            artefacts["kubeconfig"] = stack.enter_context(_control_plane(has_claims=has_claims))
            artefacts["claims.conf"] = _drop_in(SUITE.out / "claims.conf")
        yield Contents(artefacts, (*_NETWORK, *device))


@contextmanager
def _control_plane(*, has_claims: bool) -> Iterator[Path]:
    """Run etcd and an API server, and what claims need; yield a kubeconfig for the guest."""
    folder = SUITE.out / "control-plane"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    servers = ControlPlane(folder)
    try:
        servers.start()
        if has_claims:
            chart_objects.create(servers.admin)
            servers.start_controllers(*_CONTROLLERS)
            servers.start_scheduler()
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


def _drop_in(path: Path) -> Path:
    """Write the drop-in file for the agent's unit, as docs/systemd-unit.md shows it."""
    (text,) = _DROP_IN.findall(_UNIT_DOCUMENT.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    return path


SUITE = Suite(
    name="cluster",
    guest=Path(__file__).parent / "guest",
    checks=checks_of(phases.PHASES),
    contents=_contents,
    minutes=35,
    variant=CRI,
    # The last two are for tests/cluster/scheduling.
    builds=tuple(
        programs.build(each)
        for each in (
            programs.KUBELET,
            programs.CRIO,
            *programs.CONTROL_PLANE,
            programs.TOPOLOGY_SCHEDULER,
            programs.TOPOLOGY_UPDATER,
        )
    ),
)
