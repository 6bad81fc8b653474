"""What a container's cgroup shows and the runtime does not report; others read the files."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from nri_numamem.engine.core import events

# Of arm64; those of x86 have 4 KiB.
_LARGEST_PAGE_BYTES = 64 << 10

CpusetReader: TypeAlias = Callable[[events.Container, str, str], events.Container]
"""(container, cgroup_parent of its pod, its cgroups_path) -> the container with `cgroup_mems` and
`cgroup_use`, where they are known and have an effect; never raises."""

ContainerMemory: TypeAlias = Callable[[str], int | None]
"""A container's cgroups_path -> the memory limit in bytes of its cgroup; None when it has none or
it is unknown; never raises."""


def no_cpuset(container: events.Container, _parent: str, _path: str) -> events.Container:
    """Read nothing."""
    return container


def no_container_memory(_cgroups_path: str) -> int | None:
    """Read nothing."""
    return None


def with_present_limit(container: events.Container, limit_bytes: int | None) -> events.Container:
    """Return the container with the memory limit of its cgroup, if that has one.

    The kernel rounds the limit of a cgroup down to whole pages: then the reported one is exact.
    """
    if limit_bytes is None:
        return container
    reported = container.memory_limit_bytes
    if reported is not None and 0 <= reported - limit_bytes < _LARGEST_PAGE_BYTES:
        return container
    return replace(container, memory_limit_bytes=limit_bytes)
