"""A host of the simulated cluster: the plugin's state in a directory, and its Node in the API."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from nri_numamem.engine.core.events import RemovePodSandbox, StopPodSandbox
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.cli.export.export_host import ExportHost
from tests.cluster.kubernetes.api import Api, Document
from tests.cluster.scheduling.objects import (
    GI,
    NODES,
    TOPOLOGIES,
    create_node,
    create_pod,
    set_phase,
)

MANAGER = "nri-numamem"
# The plugin reserves some MiB of each NUMA node.
_ZONE_BYTES = 17 * GI // 2
_ZONE_CPUS = 4


def two_nodes() -> Machine:
    """8.5 GiB and four CPUs each."""
    nodes = (
        NumaNode(
            node,
            _ZONE_BYTES,
            {},
            CpuSet(range(node * _ZONE_CPUS, (node + 1) * _ZONE_CPUS)),
            {node: 10, 1 - node: 21},
        )
        for node in range(2)
    )
    return Machine(tuple(nodes))


class Worker(ExportHost):
    """A host with two NUMA nodes; `name` is that of its Node."""

    def __init__(self, root: Path, name: str, admin: Api) -> None:
        root.mkdir()
        super().__init__(root, two_nodes())
        self.name = name
        self.path = f"{TOPOLOGIES}/{name}"
        self.uid = create_node(admin, name, 2 * _ZONE_CPUS, 2 * _ZONE_BYTES)
        self.admin = admin
        (self.cgroups / "kubepods").mkdir()
        self.save()

    def start_pod(self, uid: str, memory_gib: int) -> None:
        """Let a Guaranteed pod run here, in the API and in the plugin's state."""
        create_pod(self.admin, name_of_pod(uid), memory_gib * GI, node=self.name)
        self.accept_pod(uid, memory_gib)

    def accept_pod(self, uid: str, memory_gib: int) -> None:
        """Start a pod that the API has on this host."""
        self.run_pod(uid, memory_gib * GI)
        self.save()
        set_phase(self.admin, name_of_pod(uid), "Running")

    def end_pod(self, uid: str) -> None:
        """End a pod on the host. The kubelet would delete its object after this."""
        pod = next(pod for pod in self.engine.state.pods.values() if pod.uid == uid)
        self.engine.apply(StopPodSandbox(pod))
        self.engine.apply(RemovePodSandbox(pod))
        shutil.rmtree(self.directory(uid))
        self.save()

    def export(self) -> Document:
        """Return the object that `nri-numamem export --dry-run` prints for this host."""
        command = (sys.executable, "-m", "nri_numamem", "export", "--dry-run", "-o", "json")
        done = subprocess.run(
            [*command, "--node-name", self.name, *self.arguments()],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", done.stderr
        document: Document = json.loads(done.stdout)
        return document

    def publish(self) -> Document:
        """Apply the exported object; return it."""
        document = self.export()
        self.admin.apply(self.path, document, MANAGER)
        return document

    def available_gib(self) -> list[int]:
        """Return the available memory of each zone in the exported object, rounded down."""
        zones = self.export()["zones"]
        resources = [{each["name"]: each for each in zone["resources"]} for zone in zones]
        return [int(each["memory"]["available"]) // GI for each in resources]

    def remove(self) -> None:
        """Delete the Node and the exported object."""
        for path in (self.path, f"{NODES}/{self.name}"):
            self.admin.delete(path, missing_ok=True)


def name_of_pod(uid: str) -> str:
    """Return the name of a pod that runs on a worker."""
    return f"{uid}-x"
