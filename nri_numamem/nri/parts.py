"""A Synchronize that comes in parts: gathered until the last one, within bounds.

Runtimes of NRI >= 0.7 cut what is too large for one message, and no field says how much is to
come. The parts belong to one connection, which is over once they are too many. Knows nothing of
what becomes of them.
"""

from nri_numamem.nri import plugin_pb2 as api

# What one message may be at most (nri.session): no more because it comes in parts.
MAX_TOTAL_BYTES = 64 << 20


class TooLargeError(Exception):
    """The parts are more than a runtime can mean; they have been forgotten."""


class SynchronizeParts:
    """The pods and containers told so far."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self._pods: list[api.PodSandbox] = []
        self._containers: list[api.Container] = []

    def add(self, request: api.SynchronizeRequest) -> None:
        """Keep a part; TooLargeError, now and ever after, when there is more than MAX_TOTAL_BYTES.

        What comes in one piece has the bound of a message, and asking for its size takes time.
        """
        if request.more or self._size_bytes:
            self._size_bytes += request.ByteSize()
        if self._size_bytes > MAX_TOTAL_BYTES:
            self._pods, self._containers = [], []
            limit = f"{MAX_TOTAL_BYTES >> 20} MiB"
            raise TooLargeError(f"Synchronize in parts of more than {limit} together")
        self._pods.extend(request.pods)
        self._containers.extend(request.containers)

    def take(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return what was gathered, and begin anew."""
        pods, containers = self._pods, self._containers
        self._size_bytes, self._pods, self._containers = 0, [], []
        return pods, containers
