"""A runtime's pods and containers, which survive restarts of the runtime.

A store outlives the FakeRuntime that filled it, as containerd's database outlives containerd. It
has the messages that plugins receive, without I/O.

Source: containerd internal/cri/nri (what Synchronize lists), internal/cri/store.
"""

from dataclasses import dataclass, field

from tests.laboratory import api_pb2 as api
from tests.laboratory.results import overlay_resources


@dataclass(slots=True)
class RuntimeStore:
    """All pods and containers by id, in the order of their creation."""

    pods: dict[str, api.PodSandbox] = field(default_factory=dict)
    """All sandboxes that were not removed, stopped or not."""
    containers: dict[str, api.Container] = field(default_factory=dict)
    """All containers that were not removed, with their current state and resources."""
    created_cpusets: dict[str, tuple[str, str]] = field(default_factory=dict)
    """cpuset.mems and cpuset.cpus after the creation, by container id."""

    def pod_of(self, container: api.Container) -> api.PodSandbox:
        """Return the sandbox of a container; raise KeyError when it was removed."""
        return self.pods[container.pod_sandbox_id]

    def containers_of(self, sandbox_id: str) -> list[api.Container]:
        """Return a pod's containers, oldest first."""
        return [c for c in self.containers.values() if c.pod_sandbox_id == sandbox_id]

    def add_container(self, container: api.Container) -> None:
        """Add a created container."""
        self.containers[container.id] = container
        cpu = container.linux.resources.cpu
        self.created_cpusets[container.id] = cpu.mems, cpu.cpus

    def drop_container(self, container_id: str) -> None:
        """Delete a removed container."""
        del self.containers[container_id]
        del self.created_cpusets[container_id]

    def alive(self) -> list[api.Container]:
        """Return the containers that Synchronize lists: created or running."""
        states = (api.CONTAINER_CREATED, api.CONTAINER_RUNNING)
        return [c for c in self.containers.values() if c.state in states]

    def apply_update(self, update: api.ContainerUpdate) -> bool:
        """Apply an update; return False for an unknown or ended container, which runtimes skip."""
        container = self.containers.get(update.container_id)
        if container is None or container.state == api.CONTAINER_STOPPED:
            return False
        overlay_resources(container.linux.resources, update.linux.resources)
        return True

    def forget_updates(self) -> None:
        """Reset every cpuset to its value after creation, as CRI-O's restart does."""
        for container_id, (mems, cpus) in self.created_cpusets.items():
            cpu = self.containers[container_id].linux.resources.cpu
            cpu.mems, cpu.cpus = mems, cpus
