"""Read the cgroups of containers that have processes.

Raises MachineError for files that cannot be read.
"""

from collections.abc import Iterator
from pathlib import Path

from nri_numamem.cli.live.facts import Cgroup
from nri_numamem.host.cgroups import effective_mems, set_mems
from nri_numamem.host.containers import (
    container_folders,
    is_populated,
    memory_limit,
    running_container,
)
from nri_numamem.host.numa_stat import read_pages
from nri_numamem.host.pod_cgroups import other_pod_directories
from nri_numamem.numa import NodeSet


def limited_containers(cgroup_root: Path, uid: str, pod_directory: Path) -> Iterator[Cgroup]:
    """Yield the containers of a pod that have a memory limit; a pause container has none."""
    for container_id, name in container_folders(pod_directory).items():
        directory = pod_directory / name
        running = running_container(cgroup_root, directory)
        if running is not None:
            limit_bytes, mems = running.memory_limit_bytes, running.mems
            yield _cgroup(cgroup_root, container_id, uid, directory, limit_bytes, mems)


def containers_of_other_pods(cgroup_root: Path, uids: frozenset[str]) -> Iterator[Cgroup]:
    """Yield the containers of these pods that are not Guaranteed, the pause containers included."""
    for uid, (_, pod_directory) in other_pod_directories(cgroup_root).items():
        for container_id, name in container_folders(pod_directory).items():
            directory = pod_directory / name
            if uid in uids and is_populated(directory):
                limit_bytes = memory_limit(cgroup_root, directory) or 0
                mems = set_mems(directory) or NodeSet()
                yield _cgroup(cgroup_root, container_id, uid, directory, limit_bytes, mems)


def _cgroup(
    cgroup_root: Path,
    container_id: str,
    uid: str,
    directory: Path,
    memory_limit_bytes: int,
    mems: NodeSet,
) -> Cgroup:
    return Cgroup(
        container_id,
        uid,
        memory_limit_bytes,
        mems,
        effective_mems(directory),
        read_pages(cgroup_root, directory),
    )
