"""The pods and containers that a runtime keeps, across its own restarts.

A store outlives the EmbeddedRuntime that filled it, as containerd's database outlives containerd.
It keeps messages as plugins get to see them, and changes them; it talks to nobody.

Source: containerd internal/cri/nri (what Synchronize lists), internal/cri/store.
"""

from dataclasses import dataclass, field

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime_results import overlay_resources


@dataclass(slots=True)
class RuntimeStore:
    """All pods and containers by id, in the order of their creation."""

    pods: dict[str, api.PodSandbox] = field(default_factory=dict)
    """Every sandbox that was not removed, the stopped ones too."""
    containers: dict[str, api.Container] = field(default_factory=dict)
    """Every container that was not removed, with state and resources as they are now."""
    created_mems: dict[str, str] = field(default_factory=dict)
    """cpuset.mems by container id, as it was after the creation."""

    def pod_of(self, container: api.Container) -> api.PodSandbox:
        """Return the sandbox of a container; KeyError when it is gone."""
        return self.pods[container.pod_sandbox_id]

    def containers_of(self, sandbox_id: str) -> list[api.Container]:
        """Return a pod's containers, oldest first."""
        return [c for c in self.containers.values() if c.pod_sandbox_id == sandbox_id]

    def add_container(self, container: api.Container) -> None:
        """Keep a container that was created."""
        self.containers[container.id] = container
        self.created_mems[container.id] = container.linux.resources.cpu.mems

    def drop_container(self, container_id: str) -> None:
        """Forget a container that was removed."""
        del self.containers[container_id]
        del self.created_mems[container_id]

    def alive(self) -> list[api.Container]:
        """Return what Synchronize lists: containers that were created or run."""
        states = (api.CONTAINER_CREATED, api.CONTAINER_RUNNING)
        return [c for c in self.containers.values() if c.state in states]

    def apply_update(self, update: api.ContainerUpdate) -> bool:
        """Change a container; False when it is unknown or ended, which runtimes pass over."""
        container = self.containers.get(update.container_id)
        if container is None or container.state == api.CONTAINER_STOPPED:
            return False
        overlay_resources(container.linux.resources, update.linux.resources)
        return True

    def forget_updates(self) -> None:
        """Show every cpuset.mems as it was created, as CRI-O does after its own restart."""
        for container_id, mems in self.created_mems.items():
            self.containers[container_id].linux.resources.cpu.mems = mems
