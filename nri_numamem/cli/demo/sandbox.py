"""The demo's sandbox: its machine, and pods with one container each."""

from collections.abc import Sequence

from nri_numamem.cli.demo.steps import CONFIG, PodSpec, machine
from nri_numamem.cli.sandbox import PLUGIN_COMMAND, PluginSandbox, SandboxError
from nri_numamem.fake_runtime import objects
from nri_numamem.fake_runtime.runtime import PluginRefused
from nri_numamem.nri import api_pb2 as api
from nri_numamem.numa.quantity import format_page_size

__all__ = ["DemoSandbox", "SandboxError"]


class DemoSandbox(PluginSandbox):
    """The demo's machine with a fake runtime and a plugin process, as a context."""

    def __init__(self, command: Sequence[str] = PLUGIN_COMMAND) -> None:
        super().__init__(machine(), CONFIG, command)
        self._pods: dict[str, api.PodSandbox] = {}

    @property
    def pod_names(self) -> dict[str, str]:
        """Pod uid -> name of every pod that was started."""
        return {pod.uid: pod.name for pod in self._pods.values()}

    def start_pod(self, spec: PodSpec) -> api.LinuxResources:
        """Start a pod with its container; return the container's resources.

        If the plugin rejects the container, the pod is removed and PluginRefused is raised.
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
    """Return the limits in the pod's cgroup, since containerd does not show hugepage limits."""
    return {
        f"hugetlb.{format_page_size(size)}.max": f"{spec.hugepages.get(size, 0)}\n"
        for size in machine().nodes[0].hugepages
    }
