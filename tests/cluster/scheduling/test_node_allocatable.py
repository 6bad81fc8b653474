"""Claims that count for the Node's allocatable amounts (KEP-5517), with its feature gate."""

import json
import subprocess
from pathlib import Path

from nri_numamem.export.resourceslice import is_counted_for_node
from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.cluster.scheduling.claim_cluster import NODE, SLICE, agent, control_plane, plugin
from tests.cluster.scheduling.objects import NODES, create_node
from tests.dra_kubelet import register
from tests.simulated_host import GI, PLUGIN, SimulatedHost

_GATE = "DRANodeAllocatableResources"
_PODS = "/api/v1/namespaces/default/pods"
_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"


def test_claims_count_where_the_node_declares_the_feature(
    simulated_host: SimulatedHost, kubelet_root: Path, tmp_path: Path
) -> None:
    with (
        control_plane(tmp_path / "plane", f"{_GATE}=true") as plane,
        plugin(simulated_host, tmp_path / "cdi") as (_runtime, config),
    ):
        admin = plane.admin
        uid = create_node(admin, NODE, 8, 8 * GI)
        running = agent(plane, simulated_host, kubelet_root, config, uid, "--node-allocatable")
        with running:
            assert not is_counted_for_node(admin.get(SLICE))
            (failed,) = records(simulated_host, "slice_write_failed")
            assert failed["failure"] == "unsupported"
            status = {"status": {"declaredFeatures": [_GATE]}}
            admin.merge(f"{NODES}/{NODE}/status", status)
            register(kubelet_root)
            wait_for(lambda: is_counted_for_node(admin.get(SLICE)), "the mapping in the slice")
            assert records(simulated_host, "slice_written")[-1]["counts_for_node"]
            template, pod = claim("3Gi")
            admin.create(_TEMPLATES, template)
            admin.create(_PODS, pod)
            wait_for(lambda: bound(admin, "app"), "a host for the pod with a claim")
            admin.create(_PODS, plain("large", 6))
            wait_for(lambda: refusal(admin, "large"), "a decision on the large pod")
            assert "Insufficient memory" in refusal(admin, "large")
            admin.create(_PODS, plain("small", 4))
            wait_for(lambda: bound(admin, "small"), "a host for the small pod")


def records(host: SimulatedHost, event: str) -> list[Document]:
    """Return what the agent has logged."""
    lines = map(json.loads, (host.root / "agent.log").read_text().splitlines())
    return [record for record in lines if record["event"] == event]


def claim(size: str) -> tuple[Document, Document]:
    """Return a template and a pod that does not repeat it in its requests."""
    command = (*PLUGIN, "claim", size, "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    template, pod = json.loads(done.stdout)["items"]
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"claims": container["resources"]["claims"]}
    return template, pod


def plain(name: str, memory_gib: int) -> Document:
    container = {
        "name": "main",
        "image": "registry.invalid/main",
        "resources": {"requests": {"memory": f"{memory_gib}Gi"}},
    }
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def bound(admin: Api, pod: str) -> bool:
    return bool(admin.get(f"{_PODS}/{pod}")["spec"].get("nodeName"))


def refusal(admin: Api, pod: str) -> str:
    """Return why the scheduler has found no host; "" if it has not decided."""
    for condition in admin.get(f"{_PODS}/{pod}")["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            text: str = condition["message"]
            return text
    return ""
