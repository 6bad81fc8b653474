"""The argument of a check: the host's services, its pods, and what the kernel enforces on them."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.cluster.guest.agent import Agent
from tests.cluster.guest.kubelet import Kubelet
from tests.cluster.guest.manifests import Manifest
from tests.machines.guest import cgroups
from tests.machines.guest.checks import expect
from tests.machines.guest.plugin import Plugin
from tests.machines.guest.runtime import Runtime
from tests.machines.guest.waiting import wait_until

# Of the kubelet's two cgroup drivers.
_PODS_CGROUPS = ("kubepods.slice", "kubepods")
_MONITOR = "conmon"  # in the names of cgroups of CRI-O's own processes
_FILES = ("cpuset.mems", "cpuset.cpus", "hugetlb.2MB.max", "hugetlb.2MB.rsvd.max")


Snapshot = tuple[dict[str, tuple[Any, ...]], dict[str, Any]]
"""Host.running() and the plugin's accounting."""


class Pods(Protocol):
    """Where pods come from: static_pods.py, api_pods.py."""

    def put(self, manifest: Manifest) -> None:
        """Let the kubelet start a pod."""

    def withdraw(self, name: str) -> None:
        """Let the kubelet end a pod."""

    def withdraw_all(self) -> None:
        """End all pods, and wait until none is left."""

    def found(self) -> dict[str, Manifest] | None:
        """Return name -> pod with its status, or None if there is no answer."""


@dataclass(slots=True)
class Host:
    """One phase's services."""

    runtime: Runtime
    plugin: Plugin
    kubelet: Kubelet
    pods: Pods
    agent: Agent | None = None
    snapshot: Snapshot = ({}, {})

    def run(self, manifest: Manifest) -> Manifest:
        """Start a pod, and wait until all its containers run; return it with its status."""
        self.pods.put(manifest)
        return self.wait_for_running(manifest["metadata"]["name"])

    def wait_for_running(self, name: str) -> Manifest:
        """Wait until all containers of a pod run; return it with its status."""

        def running() -> Manifest | None:
            pod = (self.pods.found() or {}).get(name)
            return pod if pod and is_running(pod) else None

        try:
            return wait_until(running, f"start of the pod {name}")
        except TimeoutError as error:
            pod = (self.pods.found() or {}).get(name, {})
            raise TimeoutError(f"{error}; its status is {pod.get('status')}") from error

    def pod(self, name: str) -> Manifest:
        """Return a pod with its status."""
        return (wait_until(self.pods.found, "the kubelet's pods"))[name]

    def remove(self, name: str) -> None:
        """End a pod, and wait until its memory is free in the plugin's accounting.

        The kubelet no longer shows a pod whose containers are still being removed.
        """
        uid = self.pod(name)["metadata"]["uid"]
        self.pods.withdraw(name)
        wait_until(lambda: name not in (self.pods.found() or {name}), f"end of the pod {name}")
        is_free = f"release of the pod {name} in the accounting"
        wait_until(lambda: uid not in self.plugin.accounting()["entries"], is_free)

    def remove_all(self) -> None:
        """End all pods, and wait until the accounting is empty."""
        self.pods.withdraw_all()
        self.plugin.wait_for_empty_accounting()

    def nodes(self, name: str, container: str = "main") -> frozenset[int]:
        """Return `cpuset.mems` of a running container."""
        return cgroups.parse_nodes(self.read(name, container, "cpuset.mems"))

    def read(self, name: str, container: str, file: str) -> str:
        """Return the text of a file of a running container's cgroup."""
        path = find_cgroup(container_id(self.pod(name), container))
        return (path / file).read_text(encoding="ascii").strip()

    def assignments(self, name: str) -> dict[str, Any]:
        """Return container -> blocks of a pod, from the plugin's accounting."""
        entries = self.plugin.accounting()["entries"]
        found: dict[str, Any] = entries.get(self.pod(name)["metadata"]["uid"], {})
        return found

    def running(self) -> dict[str, tuple[Any, ...]]:
        """Return "pod/container" -> id, processes and cgroup values, which no restart changes."""
        found: dict[str, tuple[Any, ...]] = {}
        for name, pod in wait_until(self.pods.found, "the kubelet's pods").items():
            for status in statuses(pod):
                if "running" in status["state"]:
                    path = find_cgroup(status["containerID"].rpartition("/")[2])
                    values = [(path / file).read_text(encoding="ascii").strip() for file in _FILES]
                    found[f"{name}/{status['name']}"] = (path.name, processes(path), values)
        return found

    def take_snapshot(self) -> Snapshot:
        """Note what runs, and the accounting, for `expect_snapshot`."""
        self.snapshot = self.running(), self.plugin.accounting()
        return self.snapshot

    def expect_snapshot(self) -> int:
        """Raise AssertionError unless all is as in the snapshot; return the number of containers.

        Waits for the status of the containers first, because a restarted kubelet collects it anew.
        Takes another snapshot.
        """
        running, accounting = self.snapshot
        wait_until(lambda: self.running().keys() >= running.keys(), "status of the containers")
        found, accounting_found = self.take_snapshot()
        expect(running, "no container was running")
        expect(found == running, f"the containers changed from {running} to {found}")
        changed = f"the accounting changed from {accounting} to {accounting_found}"
        expect(accounting_found == accounting, changed)
        return len(found)

    def restart_runtime(self, *, killed: bool) -> None:
        """Stop the runtime, start it again and wait for the plugin's connection."""
        if killed:
            self.runtime.kill()
        else:
            self.runtime.stop()
        self.runtime.start().close()
        self.runtime.wait_for_plugin(launched=False)

    def restart_kubelet(self, *, killed: bool) -> None:
        """Stop the kubelet, and start it again."""
        if killed:
            self.kubelet.kill()
        else:
            self.kubelet.stop()
        self.kubelet.start()

    def restart_plugin(self, *, killed: bool) -> None:
        """Stop the plugin, start it again and wait for its connection."""
        with self.runtime.ignoring_a_lost_plugin():
            if killed:
                self.plugin.crash()
            else:
                self.plugin.terminate()
                self.plugin.wait_for_end()
            self.plugin.restart()
            self.runtime.wait_for_plugin(launched=False)


def statuses(pod: Manifest) -> list[Manifest]:
    """Return the statuses of a pod's containers, init containers included."""
    status = pod["status"]
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def container_status(pod: Manifest, container: str) -> Manifest:
    """Return the status of a container, which is empty until the kubelet has one."""
    found = (status for status in statuses(pod) if status["name"] == container)
    return next(found, {})


def container_id(pod: Manifest, container: str) -> str:
    """Return the runtime's id of a container."""
    identifier: str = container_status(pod, container)["containerID"]
    return identifier.rpartition("/")[2]


def kill_processes(pod: Manifest, container: str) -> None:
    """Send SIGKILL to the processes of a container; one may end with another."""
    for pid in processes(find_cgroup(container_id(pod, container))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pod: Manifest) -> bool:
    """Return whether all containers of a pod run, and its init containers have ended or run."""
    containers = pod["status"].get("containerStatuses", ())
    return bool(containers) and all("running" in each["state"] for each in containers)


def find_cgroup(identifier: str) -> Path:
    """Return the cgroup of a container; raise LookupError if there is none."""
    found = _find_cgroup(identifier)
    if found is None:
        raise LookupError(f"there is no cgroup of the container {identifier}")
    return found


def container_cgroups(uid: str) -> list[Path]:
    """Return the cgroups of a pod's sandbox and containers."""
    pod = _find_cgroup(uid) or _find_cgroup(uid.replace("-", "_"))  # as systemd has it
    try:
        return [path for path in pod.iterdir() if path.is_dir()] if pod else []
    except FileNotFoundError:  # it has ended
        return []


def _find_cgroup(part: str) -> Path | None:
    """Return the first cgroup of pods whose name has this part."""
    for top in _PODS_CGROUPS:
        for folder, names, _ in os.walk(cgroups.ROOT / top):
            for name in names:
                if part in name and _MONITOR not in name:
                    return Path(folder, name)
    return None


def anonymous_bytes(path: Path) -> dict[int, int]:
    """Return NUMA node -> bytes of a cgroup's anonymous memory."""
    return cgroups.anonymous_bytes(*_parent_and_name(path))


def processes(path: Path) -> dict[int, int]:
    """Return the processes of a cgroup: pid -> start in clock ticks after boot."""
    return cgroups.processes(*_parent_and_name(path))


def _parent_and_name(path: Path) -> tuple[str, str]:
    return str(path.parent.relative_to(cgroups.ROOT)), path.name
