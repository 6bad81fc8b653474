"""Finds pods that ended without a word: their cgroup was there, and is gone.

containerd sends no pod events for pods that are older than its process, so after its restart this
is how their end is noticed. A pod whose cgroup was never seen is not judged: its cgroup may be
somewhere else.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from nri_numamem.engine.events import PodSandbox
from nri_numamem.machine.cgroups import cgroup_directory


class PodSweep:
    """Looks at the cgroups of pods, from time to time."""

    def __init__(self, cgroup_root: Path) -> None:
        self._cgroup_root = cgroup_root
        self._seen: set[str] = set()
        """Sandbox ids of pods whose cgroup was there."""
        self._expected: set[str] = set()

    def expect(self, sandbox_ids: Iterable[str]) -> None:
        """Judge these as if their cgroups had been seen, once the first cgroup of a pod is.

        They are what an earlier process held; that one cgroup is found shows that they would be.
        """
        self._expected = set(sandbox_ids)

    def look(self, pods: Mapping[str, PodSandbox]) -> list[PodSandbox]:
        """Return those of `pods` (sandbox id -> pod) whose cgroup has gone since it was seen.

        They are returned again as long as they are in `pods`: what the caller did about them may
        have been undone.
        """
        present = {sandbox_id for sandbox_id, pod in pods.items() if self._is_there(pod)}
        if present:
            self._seen |= self._expected
            self._expected = set()
        self._seen = (self._seen | present) & pods.keys()
        return [pod for sandbox_id, pod in pods.items() if sandbox_id in self._seen - present]

    def _is_there(self, pod: PodSandbox) -> bool:
        directory = cgroup_directory(self._cgroup_root, pod.cgroup_parent, "cpuset")
        return directory is not None and directory.is_dir()
