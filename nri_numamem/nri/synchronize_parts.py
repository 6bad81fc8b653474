"""The parts of a Synchronize: decoded one by one, within a limit of their total size.

Runtimes of NRI >= 0.7 split a Synchronize that is too large for one message; no field announces the
number of parts. Too large a total ends the connection. A part is decoded after its reply
(`decode_pending`), while the runtime prepares the next part. Its message, which is several times
as large as the decoded values, is then freed.

A container may be in an earlier part than its pod, whose cgroup_parent is needed to read the
container's cgroup. `take` reads the cgroups of such containers.
"""

from contextlib import suppress

from nri_numamem.engine.core import events
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import Decoder

# Equal to the limit of one message (nri.session).
MAX_TOTAL_BYTES = 64 << 20


class TooLargeError(Exception):
    """The parts are larger than any runtime's; they were discarded."""


class SynchronizeParts:
    """The pods and containers of the parts that have arrived."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._size_bytes = 0
        self._undecoded: list[api.SynchronizeRequest] = []
        self._pods: list[events.PodSandbox] = []
        self._parents: dict[str, str] = {}
        """Sandbox id -> cgroup_parent."""
        self._containers: list[events.Container] = []
        self._before_pod: list[tuple[int, str]] = []
        """Index and cgroups_path of the containers that arrived before their pods."""

    def add(self, request: api.SynchronizeRequest, size_bytes: int) -> None:
        """Store a part of `size_bytes`.

        Raise TooLargeError when all parts exceed MAX_TOTAL_BYTES, and in every call after that. The
        limit does not apply to a Synchronize in one message, which ttrpc limits.
        """
        is_part = request.more or self._size_bytes
        self._size_bytes += size_bytes
        if is_part and self._size_bytes > MAX_TOTAL_BYTES:
            self._clear()
            limit = f"{MAX_TOTAL_BYTES >> 20} MiB"
            raise TooLargeError(f"the parts of Synchronize exceed {limit}")
        self._undecoded.append(request)

    def decode_pending(self) -> None:
        """Decode the parts that were added since the last call.

        An exception is suppressed here; `take` decodes the part again and raises it.
        """
        if self._undecoded:
            with suppress(Exception):
                self._decode_pending()

    def take(self, *, keeps_updates: bool) -> events.Synchronize:
        """Return the event of all parts and clear them; see events.Synchronize.keeps_updates."""
        self._decode_pending()
        for index, cgroups_path in self._before_pod:
            container = self._containers[index]
            parent = self._parents.get(container.sandbox_id)
            if parent is not None:
                found = self._decoder.with_cpuset(container, parent, cgroups_path)
                self._containers[index] = found
        claims = self._decoder.prepared_claims()
        event = events.Synchronize(
            tuple(self._pods), tuple(self._containers), keeps_updates, claims
        )
        self._size_bytes = 0
        self._clear()
        return event

    def _decode_pending(self) -> None:
        while self._undecoded:
            self._decode(self._undecoded[0])
            del self._undecoded[0]

    def _decode(self, request: api.SynchronizeRequest) -> None:
        decoder = self._decoder
        if not (self._pods or self._containers):
            decoder.forget_sandboxes()
        # The lists change only after the whole part is decoded, because a failed part is decoded
        # again.
        pods = [decoder.sandbox(pod) for pod in request.pods]
        self._parents.update((pod.sandbox_id, pod.cgroup_parent) for pod in pods)
        containers: list[events.Container] = []
        before_pod: list[tuple[int, str]] = []
        for message in request.containers:
            parent = self._parents.get(message.pod_sandbox_id)
            container = decoder.running_container(message, parent)
            if parent is None and not container.ended:
                index = len(self._containers) + len(containers)
                before_pod.append((index, message.linux.cgroups_path))
            containers.append(container)
        self._pods += pods
        self._containers += containers
        self._before_pod += before_pod

    def _clear(self) -> None:
        self._undecoded, self._pods, self._containers = [], [], []
        self._parents, self._before_pod = {}, []
