"""The host as the exporter sees it: a stamp that shows changes, and everything read together.

The stamp has size, inode and time of the files, the names of the pods' cgroups, and the counts of
the hugepage pools. It is taken each second, so it reads no file but those of the pools.
"""

import argparse
import os
from collections.abc import Hashable, Iterator
from pathlib import Path

from nri_numamem.cli.export.collect import collect
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.config.errors import UsageError
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.export.noderesourcetopology import noderesourcetopology
from nri_numamem.exporter.loop import Reading
from nri_numamem.host.hugepages import PoolDirectories, read_pool_use
from nri_numamem.host.pod_cgroups import guaranteed_pods, other_pods
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa import CpuSet


class HostInputs:
    """Reads the host that the options name."""

    def __init__(
        self, args: argparse.Namespace, node_name: str, reserved_cpus: CpuSet | None
    ) -> None:
        self._args = args
        self._node_name = node_name
        self._reserved_cpus = reserved_cpus
        self._roots = roots_of(args)
        self._files: tuple[Path, ...] = ()

    def stamp(self) -> Hashable:
        """Return a value that differs when something has changed."""
        return tuple(self._stamps())

    def read(self) -> Reading:
        """Return the object, None if there is none, and what is missing."""
        try:
            collected = collect(self._args, self._node_name, self._reserved_cpus)
        except UsageError as error:
            return Reading(None, (Problem(Input.OBJECT, str(error)),))
        self._files = collected.files
        if collected.host is None:
            return Reading(None, collected.problems)
        return Reading(noderesourcetopology(collected.host), collected.problems)

    def _stamps(self) -> Iterator[Hashable]:
        yield tuple(map(_file_stamp, self._files))
        try:
            yield frozenset(guaranteed_pods(self._roots.cgroup))
            yield frozenset(other_pods(self._roots.cgroup))
            use = read_pool_use(PoolDirectories.find(self._roots.sysfs))
            yield tuple((node, *pools.items()) for node, pools in use.pools.items())
            yield tuple(use.rsvd.items())
        except MachineError as error:
            yield str(error)


def _file_stamp(path: Path) -> Hashable:
    try:
        found = os.stat(path)  # noqa: PTH116 - of a string, which Path.stat makes each time
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns
