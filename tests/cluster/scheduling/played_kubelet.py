"""The kubelet's part on a host with a simulated machine and a real plugin process.

One thread does what the API server has for the host: it starts pods, tries refused containers
again, and ends pods that are deleted.
"""

import threading
from typing import Self

from nri_numamem.cli.demo import CONFIG, machine
from nri_numamem.memorymanager import QosClass
from nri_numamem.numa.quantity import parse_quantity
from nri_numamem.observe.history.lines import read_history
from tests.cluster.kubernetes.api import Api, Document
from tests.cluster.scheduling.claim_cluster import NODE
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import PluginRefused
from tests.laboratory.sandbox import PluginSandbox

PODS = "/api/v1/namespaces/default/pods"
_LOOK_S = 0.5
_READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Started"}],
}


class PlayedKubelet(PluginSandbox):
    """A context in which pods of the API server run on the machine of the demo."""

    def __init__(self, admin: Api, settings: str) -> None:
        super().__init__(machine(), CONFIG + settings)
        self._admin = admin
        self._pods: dict[str, api.PodSandbox] = {}
        """Uid -> sandbox."""
        self.nodes: dict[str, str] = {}
        """Name of a pod -> NUMA nodes of its container, while it runs."""
        self.refusals: dict[str, str] = {}
        """Name of a pod -> the text of its last refusal."""
        self._failure: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        super().__enter__()
        self._thread.start()
        return self

    def close(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        super().close()
        if self._failure is not None:
            raise self._failure

    def options(self) -> list[str]:
        """Return the options of commands for this host."""
        names = {
            "--config": "config.yaml",
            "--state-file": "nri_numamem_state",
            "--sysfs-root": "sys",
            "--proc-root": "proc",
            "--cgroup-root": "cgroup",
        }
        return [str(word) for key, name in names.items() for word in (key, self._root / name)]

    def is_in_history(self, name: str) -> bool:
        """Return whether the plugin has written a decision on a pod, which commands read."""
        entries = read_history(self._root / "nri_numamem_state").entries
        return any(entry.fields.get("pod") == name for entry in entries)

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_LOOK_S):
                pods = self._admin.get(PODS)["items"]
                here = [pod for pod in pods if pod["spec"].get("nodeName") == NODE]
                for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in here}:
                    self._end(uid)
                for pod in here:
                    self._take(pod)
        except BaseException as error:  # noqa: BLE001 - raised when the context ends
            self._failure = error

    def _take(self, pod: Document) -> None:
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if "deletionTimestamp" in metadata:
            if uid in self._pods:
                self._end(uid)
            now = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            self._admin.request("DELETE", f"{PODS}/{name}", now)
        elif name not in self.nodes:
            self._start_pod(pod)

    def _end(self, uid: str) -> None:
        sandbox = self._pods.pop(uid)
        self.nodes.pop(sandbox.name, None)
        self._end_pod(sandbox)

    def _start_pod(self, pod: Document) -> None:
        metadata = pod["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        (spec,) = pod["spec"]["containers"]
        size = parse_quantity(spec["resources"]["limits"]["memory"])
        if uid not in self._pods:
            made = objects.pod(
                name,
                uid=uid,
                qos=QosClass.GUARANTEED,
                memory_limit_bytes=size,
                annotations=metadata.get("annotations"),
            )
            made.labels.update(metadata.get("labels", {}))
            self._make_cgroup(made, {"memory.max": f"{size}\n"})
            self._pods[uid] = self._runtime.run_pod_sandbox(made)
        sandbox = self._pods[uid]
        container = objects.container(sandbox, spec["name"], memory_limit_bytes=size)
        del container.linux.devices[:]  # a pod with a device is not moved
        try:
            created = self._runtime.create_container(sandbox, container)
        except PluginRefused as refused:
            self.refusals[name] = refused.text
            return
        self._runtime.start_container(created)
        self._admin.merge(f"{PODS}/{name}/status", {"status": _READY})
        self.nodes[name] = created.linux.resources.cpu.mems
