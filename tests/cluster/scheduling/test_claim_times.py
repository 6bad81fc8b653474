"""Pods with and without claims, from the API server to the container, in turn.

Scheduler, controllers, agent and plugin are processes. The test is the kubelet, which prepares
claims by gRPC, and the runtime. The summary shows how long each kind took; no time is a condition.
"""

import json
import statistics
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from nri_numamem.kubelet import dra_pb2 as pb
from nri_numamem.memorymanager import QosClass
from nri_numamem.observe import cdi
from tests.cluster.kubernetes.api import Document
from tests.cluster.kubernetes.servers import ControlPlane
from tests.cluster.scheduling.claim_cluster import NODE, agent, control_plane, plugin
from tests.cluster.scheduling.conftest import SUMMARY
from tests.cluster.scheduling.objects import create_node
from tests.cluster.scheduling.watched_pods import WatchedPods
from tests.dra_kubelet import prepare, unprepare
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import GI, PLUGIN, SimulatedHost

_PAIRS = 30
_PODS = "/api/v1/namespaces/default/pods"
_RESOURCES = "/apis/resource.k8s.io/v1/namespaces/default"
_TEMPLATES, _CLAIMS = f"{_RESOURCES}/resourceclaimtemplates", f"{_RESOURCES}/resourceclaims"


class Cluster:
    """The kubelet's and the runtime's part on one host."""

    def __init__(
        self, plane: ControlPlane, pods: WatchedPods, runtime: FakeRuntime, cdi_directory: Path
    ) -> None:
        self._admin, self._pods, self._runtime = plane.admin, pods, runtime
        self._cdi_directory = cdi_directory

    def run_plain(self, name: str) -> set[int]:
        """Run a pod without a claim; return the NUMA nodes of its container."""
        self._create_pod(name, {})
        return self._create_container(name, "")

    def run_with_claim(self, name: str, channel: grpc.Channel) -> set[int]:
        """Run a pod with a claim of a template; return the NUMA nodes of its container."""
        claims = {"resourceClaims": [{"name": "numa", "resourceClaimTemplateName": "app"}]}
        pod = self._create_pod(name, claims)
        claim = self._claim_of(pod)
        prepared = prepare(channel, claim)
        assert prepared.devices, prepared.error
        return self._create_container(name, claim.uid)

    def end(self, name: str, channel: grpc.Channel) -> None:
        """End a pod, and the claim that it may have."""
        pod = self._admin.get(f"{_PODS}/{name}")
        self._runtime.stop_pod_sandbox(objects.pod(name, uid=name, qos=QosClass.BEST_EFFORT))
        if pod["spec"].get("resourceClaims"):
            assert unprepare(channel, self._claim_of(pod)) == ""
        self._admin.delete(f"{_PODS}/{name}")

    def _claim_of(self, pod: Document) -> pb.Claim:
        (status,) = pod["status"]["resourceClaimStatuses"]
        name = status["resourceClaimName"]
        found = self._admin.get(f"{_CLAIMS}/{name}")["metadata"]
        return pb.Claim(namespace="default", name=name, uid=found["uid"])

    def _create_pod(self, name: str, more: Document) -> Document:
        """Create a pod, and wait until it is bound; return it."""
        container: Document = {"name": "main", "image": "registry.invalid/main"}
        if more:
            container["resources"] = {"claims": [{"name": "numa"}]}
        spec = {"containers": [container], **more}
        self._admin.create(_PODS, {"metadata": {"name": name}, "spec": spec})
        return self._pods.wait(name, lambda pod: pod and pod["spec"].get("nodeName"))

    def _create_container(self, name: str, claim_uid: str) -> set[int]:
        pod = self._runtime.run_pod_sandbox(objects.pod(name, uid=name, qos=QosClass.BEST_EFFORT))
        made = objects.container(pod, "main", qos=QosClass.BEST_EFFORT)
        if claim_uid:
            self._add_hooks(made, claim_uid)
        mems = self._runtime.create_container(pod, made).linux.resources.cpu.mems
        return {int(mems)} if mems else set()

    def _add_hooks(self, container: api.Container, claim_uid: str) -> None:
        text = cdi.specification_file(self._cdi_directory, claim_uid).read_text()
        for device in json.loads(text)["devices"]:
            for hook in device["containerEdits"]["hooks"]:
                container.hooks.create_runtime.add(path=hook["path"], args=hook["args"])


def test_what_a_claim_adds_to_the_start_of_a_pod(
    simulated_host: SimulatedHost,
    kubelet_root: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    specifications = tmp_path / "cdi"
    times_s: dict[str, list[float]] = {"without a claim": [], "with a claim": []}
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(tmp_path / "plane"))
        uid = create_node(plane.admin, NODE, 64, 64 * GI)
        plane.admin.create(_TEMPLATES, _template())
        runtime, config = stack.enter_context(plugin(simulated_host, specifications))
        running = agent(plane, simulated_host, kubelet_root, config, uid)
        process, endpoint = stack.enter_context(running)
        channel = stack.enter_context(grpc.insecure_channel(f"unix://{endpoint}"))
        pods = stack.enter_context(WatchedPods(plane.admin, "default"))
        cluster = Cluster(plane, pods, runtime, specifications)
        for number in range(_PAIRS):
            began_s = time.monotonic()
            assert cluster.run_plain(f"plain-{number}") == set()
            times_s["without a claim"].append(time.monotonic() - began_s)
            began_s = time.monotonic()
            assert cluster.run_with_claim(f"claim-{number}", channel) in ({0}, {1})
            times_s["with a claim"].append(time.monotonic() - began_s)
            for kind in ("plain", "claim"):
                cluster.end(f"{kind}-{number}", channel)
        status = Path(f"/proc/{process.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    lines = [
        f"pod {kind}, from its creation to that of its container: median "
        f"{1000 * statistics.median(found):.0f} ms, longest {1000 * max(found):.0f} ms"
        for kind, found in times_s.items()
    ]
    lines.append(f"agent: at most {int(peak) / 1024:.1f} MiB resident")
    request.config.stash[SUMMARY] += lines


def _template() -> Document:
    command = (*PLUGIN, "claim", "512Mi", "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    template: Document = json.loads(done.stdout)["items"][0]
    return template
