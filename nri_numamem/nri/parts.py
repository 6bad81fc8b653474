"""A Synchronize that comes in parts: decoded one by one, within bounds.

Runtimes of NRI >= 0.7 cut what is too large for one message, and no field says how much is to
come. The parts belong to one connection, which is over once they are too many. While the runtime
makes the next part nobody waits for us, so a part is decoded when it has been acknowledged
(`settle`), and its message, which is several times as large as what is read of it, is let go.

A container may come in an earlier part than its pod, which tells whether its cgroup is looked at.
"""

from contextlib import suppress
from dataclasses import replace

from nri_numamem.engine import events
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.decode import Decoder

# What one message may be at most (nri.session): no more because it comes in parts.
MAX_TOTAL_BYTES = 64 << 20


class TooLargeError(Exception):
    """The parts are more than a runtime can mean; they have been forgotten."""


class SynchronizeParts:
    """The pods and containers told so far."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._size_bytes = 0
        self._undecoded: list[api.SynchronizeRequest] = []
        self._pods: list[events.PodSandbox] = []
        self._parents: dict[str, str] = {}
        """Sandbox id -> cgroup_parent."""
        self._containers: list[events.Container] = []
        self._podless: list[tuple[int, str]] = []
        """Place and cgroups_path of containers whose pods are still to come."""

    def add(self, request: api.SynchronizeRequest, size_bytes: int) -> None:
        """Keep a part; TooLargeError, now and ever after, when there is more than MAX_TOTAL_BYTES.

        What comes in one piece has the bound of a message.
        """
        is_part = request.more or self._size_bytes
        self._size_bytes += size_bytes
        if is_part and self._size_bytes > MAX_TOTAL_BYTES:
            self._forget()
            limit = f"{MAX_TOTAL_BYTES >> 20} MiB"
            raise TooLargeError(f"Synchronize in parts of more than {limit} together")
        self._undecoded.append(request)

    def settle(self) -> None:
        """Decode what was added since the last time; a bug is left for `take` to come upon."""
        with suppress(Exception):
            self._decode_added()

    def take(self, *, keeps_updates: bool) -> events.Synchronize:
        """Return all that was told, and begin anew; for `keeps_updates` see events.Synchronize."""
        self._decode_added()
        for place, cgroups_path in self._podless:
            container = self._containers[place]
            parent = self._parents.get(container.sandbox_id)
            if parent is not None:
                mems = self._decoder.container_mems(parent, cgroups_path)
                self._containers[place] = replace(container, cgroup_mems=mems)
        told = events.Synchronize(tuple(self._pods), tuple(self._containers), keeps_updates)
        self._size_bytes = 0
        self._forget()
        return told

    def _decode_added(self) -> None:
        while self._undecoded:
            self._decode(self._undecoded[0])
            del self._undecoded[0]

    def _decode(self, request: api.SynchronizeRequest) -> None:
        decoder = self._decoder
        if not (self._pods or self._containers):
            decoder.forget_sandboxes()
        # On the lists when all of it is decoded, because what fails is tried again.
        pods = [decoder.sandbox(pod) for pod in request.pods]
        self._parents.update((pod.sandbox_id, pod.cgroup_parent) for pod in pods)
        containers: list[events.Container] = []
        podless: list[tuple[int, str]] = []
        for told in request.containers:
            parent = self._parents.get(told.pod_sandbox_id)
            container = decoder.running_container(told, parent)
            if parent is None and not container.ended:
                place = len(self._containers) + len(containers)
                podless.append((place, told.linux.cgroups_path))
            containers.append(container)
        self._pods += pods
        self._containers += containers
        self._podless += podless

    def _forget(self) -> None:
        self._undecoded, self._pods, self._containers = [], [], []
        self._parents, self._podless = {}, []
