"""The argument of checks that create pods over the CRI, without a kubelet."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.machines.guest import cgroups
from tests.machines.guest.cri_pb2 import CONTAINER_RUNNING
from tests.machines.guest.kubelet import Kubelet, Pod
from tests.machines.guest.plugin import Plugin
from tests.machines.guest.runtime import Runtime


@dataclass(slots=True)
class Host:
    """One phase's runtime, plugin and pods."""

    runtime: Runtime
    plugin: Plugin
    kubelet: Kubelet
    placements: list[tuple[str, list[int]]] = field(default_factory=list)
    """("pod/container", nodes) of each call of `nodes`."""

    def nodes(self, pod: Pod, container: str = "main") -> frozenset[int]:
        """Return a container's `cpuset.mems`, and append it to the placements.

        A check that runs in a single mode of the plugin must not call this.
        """
        nodes = cgroups.nodes(pod.parent, pod.container_ids[container])
        self.placements.append((f"{pod.spec.name}/{container}", sorted(nodes)))
        return nodes

    def remove_all(self) -> None:
        """Remove all pods."""
        self.kubelet.remove_all()

    def restart_runtime(self, *, killed: bool) -> None:
        """Stop the runtime, start it again and wait for the plugin's connection."""
        if killed:
            self.runtime.kill()
        else:
            self.runtime.stop()
        self.kubelet.client.close()
        self.kubelet.client = self.runtime.start()
        self.runtime.wait_for_plugin(launched=self.plugin.launched)

    @contextlib.contextmanager
    def without_plugin(self) -> Iterator[None]:
        """End an external plugin by SIGTERM; afterwards start it, and wait for its connection."""
        try:
            with self.runtime.ignoring_a_lost_plugin():
                self.plugin.terminate()
                self.plugin.wait_for_end()
                yield
        finally:
            self.start_plugin()

    def start_plugin(self) -> None:
        """Start an external plugin that has ended, and wait for its new connection."""
        with self.runtime.ignoring_a_lost_plugin():
            self.plugin.restart()
            self.runtime.wait_for_plugin(launched=False)

    def running(self) -> dict[str, tuple[Any, ...]]:
        """Return "pod/container" -> id, processes, nodes, none of which a restart may change.

        Only containers that run according to the CRI are included.
        """
        states = {each.id: each.state for each in self.kubelet.client.list_containers()}
        found: dict[str, tuple[Any, ...]] = {}
        for pod in self.kubelet.pods:
            for name, container_id in pod.container_ids.items():
                if states.get(container_id) == CONTAINER_RUNNING:
                    processes = cgroups.processes(pod.parent, container_id)
                    mems = cgroups.read(pod.parent, container_id, "cpuset.mems")
                    found[f"{pod.spec.name}/{name}"] = (container_id, processes, mems)
        return found
