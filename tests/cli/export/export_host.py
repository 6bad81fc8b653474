"""A host whose plugin runs, with everything that the export reads."""

import json
from pathlib import Path

from nri_numamem.numa import Machine
from tests.cli.live.live_host import GI, LiveHost, four_nodes

CONFIG = "topologyManagerPolicy: single-numa-node\n"
NONE_STATE = {"policyName": "none", "defaultCpuSet": "", "checksum": 1}


class ExportHost(LiveHost):
    """A live host with the kubelet's files."""

    def __init__(self, root: Path, machine: Machine | None = None, config: str = CONFIG) -> None:
        super().__init__(root, machine or four_nodes(), config)
        self.kubelet = root / "kubelet"
        self.kubelet.mkdir()
        self.pod_logs = root / "pods"
        self.pod_logs.mkdir()
        self.write_kubelet("kind: KubeletConfiguration\n")
        self.write_cpu_state(NONE_STATE)

    def arguments(self) -> list[str]:
        """Return the options with which the command reads this host."""
        more = ["--kubelet-root", str(self.kubelet), "--pod-logs", str(self.pod_logs)]
        return [*super().arguments(), *more]

    def write_kubelet(self, text: str) -> None:
        (self.kubelet / "config.yaml").write_text(text)

    def write_cpu_state(self, document: object) -> None:
        (self.kubelet / "cpu_manager_state").write_text(json.dumps(document))

    def name_pod(self, uid: str) -> None:
        """Let the kubelet have a directory of the pod's logs."""
        (self.pod_logs / f"shop_{uid}-x_{uid}").mkdir()

    def run_pod(self, uid: str, memory_bytes: int = 10 * GI, millicores: int | None = 500) -> str:
        """Run a Guaranteed pod with one container; return the container's id."""
        container = self.run(uid, "main", memory_bytes)
        self.name_pod(uid)
        quota = "max" if millicores is None else millicores * 100
        directory = self.directory(uid, container.container_id)
        (directory / "cpu.max").write_text(f"{quota} 100000\n")
        return container.container_id

    def run_other_pod(self, uid: str, level: str = "burstable") -> None:
        """Run a pod that is not Guaranteed."""
        (self.cgroups / "kubepods" / level / f"pod{uid}").mkdir(parents=True)
        self.name_pod(uid)
