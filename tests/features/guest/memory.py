"""Memory of containers: programs that write it, and what the kernel shows of it.

Containers are named by pod and name. This module depends on busybox, cgroups and /proc, and not on
the plugin or a scenario.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.machines.guest import cgroups
from tests.machines.guest.kubelet import Pod
from tests.machines.guest.processes import first_victim
from tests.machines.guest.waiting import wait_until

MIB = 1 << 20


def writer(mib: int) -> tuple[str, ...]:
    """Return the command of a container that writes anonymous memory once, and keeps it."""
    return ("/bin/sh", "-c", _script(mib))


def _script(mib: int) -> str:
    # The block stays in dd's memory, because sleep never reads from the pipe.
    return f"busybox dd if=/dev/zero bs={mib * MIB} count=1 | busybox sleep 1000000"


def wait_for_written(pod: Pod, mib: int, container: str = "main") -> Mapping[int, float]:
    """Wait until a container has as much anonymous memory; return NUMA node -> MiB."""

    def written() -> dict[int, int] | None:
        found = numa_stat(pod, container)["anon"]
        return found if sum(found.values()) >= mib * MIB else None

    found = wait_until(written, f"{mib} MiB of anonymous memory of {pod.spec.name}")
    return {node: round(size / MIB, 1) for node, size in found.items()}


@contextlib.contextmanager
def more_written(pod: Pod, mib: int, container: str = "main") -> Iterator[None]:
    """Write more memory in the cgroup of a container that runs; afterwards it is free again."""
    before = sum(numa_stat(pod, container)["anon"].values()) // MIB
    procs = cgroups.container(pod.parent, pod.container_ids[container]) / "cgroup.procs"
    script = f"echo $$ > {procs} && {_script(mib)}"
    with first_victim(script):
        wait_for_written(pod, before + mib, container)
        yield


def read(pod: Pod, file: str, container: str = "main") -> str:
    """Return a file of a container's cgroup, such as "memory.low"."""
    return cgroups.read(pod.parent, pod.container_ids[container], file)


def numa_stat(pod: Pod, container: str = "main") -> dict[str, dict[int, int]]:
    """Return `memory.numa_stat`: name such as "anon" -> NUMA node -> bytes."""
    return cgroups.numa_stat(pod.parent, pod.container_ids[container])


def pids(pod: Pod, container: str = "main") -> list[int]:
    """Return the ids of a container's processes."""
    return list(cgroups.processes(pod.parent, pod.container_ids[container]))


def status(pid: int) -> dict[str, str]:
    """Return /proc/PID/status: name such as "Mems_allowed_list" -> value."""
    lines = Path("/proc", str(pid), "status").read_text(encoding="utf-8").splitlines()
    split = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in split}


def policies(pid: int) -> list[str]:
    """Return the lines of /proc/PID/numa_maps without addresses: "bind=static:0 anon=4 N0=4"."""
    lines = Path("/proc", str(pid), "numa_maps").read_text(encoding="ascii").splitlines()
    return [line.partition(" ")[2] for line in lines]
