"""The demo through a real plugin process: what `make run` shows on a host without NRI.

The fake runtime of this package starts and removes the pods of ``nri_numamem.cli.demo``.

    python -m tests.laboratory.demo
"""

import sys
from collections.abc import Sequence

from nri_numamem.cli.demo import CONFIG, PodSpec, RefusedError, Started, machine, play
from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.numa.quantity import format_page_size, parse_page_size
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import PluginRefused
from tests.laboratory.sandbox import PLUGIN_COMMAND, PluginSandbox, SandboxError


class DemoSandbox(PluginSandbox):
    """The demo's machine with a fake runtime and a plugin process, as a context.

    `settings` are further ones, in YAML.
    """

    def __init__(self, command: Sequence[str] = PLUGIN_COMMAND, settings: str = "") -> None:
        super().__init__(machine(), CONFIG + settings, command)
        self._pods: dict[str, api.PodSandbox] = {}

    @property
    def pod_names(self) -> dict[str, str]:
        """Pod uid -> name of every pod that was started."""
        return {pod.uid: pod.name for pod in self._pods.values()}

    def start_pod(self, spec: PodSpec) -> Started:
        """Start a pod with its container; raise RefusedError, without it, if refused."""
        return self._guard(lambda: self._start_pod(spec))

    def remove_pod(self, spec: PodSpec) -> None:
        """Stop and remove a pod."""
        self._guard(lambda: self._end_pod(self._pods[spec.name]))

    def _start_pod(self, spec: PodSpec) -> Started:
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
        except PluginRefused as refused:
            self._end_pod(pod)
            raise RefusedError(refused.text) from refused
        self._runtime.start_container(created)
        return started(created.linux.resources)


def started(resources: api.LinuxResources) -> Started:
    """Return the nodes and hugepage limits among a container's resources."""
    limits = {limit.page_size: limit.limit for limit in resources.hugepage_limits}
    for key, value in resources.unified.items():
        size = key.removeprefix("hugetlb.").removesuffix(".max")
        if key.startswith("hugetlb.") and not size.endswith(".rsvd"):
            limits[size] = int(value)
    in_bytes = {parse_page_size(size): limit for size, limit in limits.items()}
    return Started(resources.cpu.mems, in_bytes)


def _hugepage_files(spec: PodSpec) -> dict[str, str]:
    """Return the limits in the pod's cgroup, since containerd does not show hugepage limits."""
    return {
        f"hugetlb.{format_page_size(size)}.max": f"{spec.hugepages.get(size, 0)}\n"
        for size in machine().nodes[0].hugepages
    }


def main(command: Sequence[str] = PLUGIN_COMMAND) -> int:
    """Run the demo; return 0, or 1 after printing an error."""
    console = new_console()
    try:
        with DemoSandbox(command) as sandbox:
            play(sandbox, console, "A simulated machine; the plugin runs as a separate process")
            console.print()
            Screen(console).heading(
                f"The plugin replied to {sandbox.call_count} NRI calls; temporary files removed"
            )
    except SandboxError as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
