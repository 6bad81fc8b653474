"""The stage of the demo: its machine, and its pods with one container each."""

from collections.abc import Sequence

from nri_numamem.cli.demo_story import CONFIG, PodSpec, machine
from nri_numamem.cli.stage import PLUGIN_COMMAND, PluginStage, StageError
from nri_numamem.memorymanager.quantity import format_page_size
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from nri_numamem.nri.runtime import PluginRefused

__all__ = ["Stage", "StageError"]


class Stage(PluginStage):
    """The demo's machine, with a runtime and a plugin for as long as the context lasts."""

    def __init__(self, command: Sequence[str] = PLUGIN_COMMAND) -> None:
        super().__init__(machine(), CONFIG, command)
        self._pods: dict[str, api.PodSandbox] = {}

    @property
    def pod_names(self) -> dict[str, str]:
        """Pod uid -> name of every pod so far."""
        return {pod.uid: pod.name for pod in self._pods.values()}

    def start_pod(self, spec: PodSpec) -> api.LinuxResources:
        """Start a pod with its container; return what the container was given.

        Raises PluginRefused when the plugin refuses it; the pod is gone again then.
        """
        return self._guard(lambda: self._start_pod(spec))

    def remove_pod(self, spec: PodSpec) -> None:
        """Stop and remove a pod."""
        self._guard(lambda: self._end_pod(self._pods[spec.name]))

    def _start_pod(self, spec: PodSpec) -> api.LinuxResources:
        attempt = 1 if spec.name in self._pods else 0
        pod = objects.pod(
            spec.name, qos=spec.qos, memory_limit_bytes=spec.memory_bytes, attempt=attempt
        )
        self._make_cgroup(pod, _hugepage_files(spec))
        self._pods[spec.name] = self._runtime.run_pod_sandbox(pod)
        container = objects.container(
            pod, spec.container, memory_limit_bytes=spec.memory_bytes, qos=spec.qos
        )
        try:
            created = self._runtime.create_container(pod, container)
        except PluginRefused:
            self._end_pod(pod)
            raise
        self._runtime.start_container(created)
        return created.linux.resources


def _hugepage_files(spec: PodSpec) -> dict[str, str]:
    """Return the limits of the pod's cgroup: containerd hides hugepages, these show them."""
    return {
        f"hugetlb.{format_page_size(size)}.max": f"{spec.hugepages.get(size, 0)}\n"
        for size in machine().nodes[0].hugepages
    }
