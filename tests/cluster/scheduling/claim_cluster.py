"""A control plane for claims, the plugin on a simulated host, and the agent, as processes."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from nri_numamem.export.resourceslice import DRIVER
from nri_numamem.kubelet.dra import registration_socket
from tests.cluster import chart_objects
from tests.cluster.kubernetes.api import wait_for
from tests.cluster.kubernetes.servers import ControlPlane
from tests.dra_kubelet import register
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

NODE = "worker"
SLICE = f"/apis/resource.k8s.io/v1/resourceslices/{NODE}-{DRIVER}"
_ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/nri-numamem-export"


@contextmanager
def control_plane(
    root: Path,
    feature_gates: str = "",
    *,
    values: Mapping[str, object] = chart_objects.CLAIMS,
    controllers: Sequence[str] = ("resourceclaim-controller",),
) -> Iterator[ControlPlane]:
    """Run API server, scheduler and controllers, with what the chart creates for `values`."""
    root.mkdir()
    plane = ControlPlane(root, feature_gates)
    try:
        plane.start()
        chart_objects.create(plane.admin, values)
        account = "/api/v1/namespaces/default/serviceaccounts"
        plane.admin.create(account, {"metadata": {"name": "default"}})
        plane.start_controllers(*controllers)
        plane.start_scheduler()
        yield plane
    finally:
        plane.close()


def agents_kubeconfig(plane: ControlPlane, node_uid: str) -> Path:
    """Return a kubeconfig with a token of the chart's account that names the Node."""
    bound = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": node_uid}
    answer = plane.admin.create(f"{_ACCOUNT}/token", {"spec": {"boundObjectRef": bound}})
    return plane.kubeconfig("agent", token=answer["status"]["token"])


@contextmanager
def plugin(host: SimulatedHost, specifications: Path) -> Iterator[tuple[FakeRuntime, Path]]:
    """Run the plugin with claims on a runtime; yield the runtime and the configuration.

    The CDI specifications of claims are written to the directory `specifications`.
    """
    config = host.root / "config.yaml"
    config.write_text(f"claims: {{enabled: true, cdiDirectory: {specifications}}}\n")
    with FakeRuntime() as runtime:
        runtime.listen(host.socket)
        host.start("--config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        yield runtime, config


@contextmanager
def agent(
    plane: ControlPlane,
    host: SimulatedHost,
    kubelet_root: Path,
    config: Path,
    node_uid: str,
    *options: str,
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the agent with the account of the chart, whose token names the Node.

    Yield it and the endpoint of the driver, when its slice is written.
    """
    named = {
        "--kubeconfig": agents_kubeconfig(plane, node_uid),
        "--node-name": NODE,
        "--kubelet-root": kubelet_root,
        "--state-file": host.state_file,
        "--config": config,
    }
    arguments = host.arguments(named)[2:]  # without the socket of NRI
    with (host.root / "agent.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nri_numamem", "agent", "--claims", *arguments, *options],
            stderr=log,
            env=dict(os.environ),
        )
    try:
        wait_for(Path(registration_socket(kubelet_root, DRIVER)).exists, "the socket of the agent")
        endpoint = register(kubelet_root)
        wait_for(lambda: plane.admin.exists(SLICE), "the slice")
        yield process, endpoint
    finally:
        process.kill()
        process.wait()
