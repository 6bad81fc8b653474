"""A byte stream in memory between the virtual runtime and the plugin, and a poller for it."""

import errno
from collections.abc import Callable

from nri_numamem.nri.poller import Ready, Source
from tests.virtual.world import World

# What a Unix socket's buffer takes from a plugin whose runtime does not read.
_BUFFER_BYTES = 208 << 10


class VirtualChannel:
    """The plugin's end of a connection; the runtime's end is `on_send` and `deliver`."""

    def __init__(self, on_send: Callable[[bytes], None]) -> None:
        self.is_stalled = False
        """The runtime does not read; what the plugin sends waits in the socket's buffer."""
        self.is_closed = False
        """The plugin closed its end."""
        self._on_send = on_send
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._is_cut = False

    # The plugin's end.

    def fileno(self) -> int:
        return -1

    @property
    def is_readable(self) -> bool:
        return not self.is_closed and bool(self._inbox or self._is_cut)

    @property
    def is_writable(self) -> bool:
        return len(self._outbox) < _BUFFER_BYTES

    def recv_into(self, buffer: memoryview, /) -> int:
        if self._inbox:
            size = min(len(buffer), len(self._inbox))
            buffer[:size] = self._inbox[:size]
            del self._inbox[:size]
            return size
        if self._is_cut:
            return 0
        raise BlockingIOError

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        if self._is_cut:
            raise BrokenPipeError(errno.EPIPE, "broken pipe")
        if not self.is_stalled:
            self._on_send(bytes(data))
            return len(data)
        size = min(len(data), _BUFFER_BYTES - len(self._outbox))
        if not size:
            raise BlockingIOError
        self._outbox += data[:size]
        return size

    def close(self) -> None:
        self.is_closed = True

    # The runtime's end.

    def deliver(self, data: bytes) -> None:
        """Give the plugin bytes to read."""
        if not self._is_cut:
            self._inbox += data

    def cut(self) -> None:
        """Close the runtime's end; bytes that the plugin has not read yet stay readable."""
        self._is_cut = True

    def flow(self) -> None:
        """Read again after a stall."""
        self.is_stalled = False
        data, self._outbox = bytes(self._outbox), bytearray()
        if data and not self._is_cut:
            self._on_send(data)


class VirtualPoller:
    """Waits for channels and signals on the world's clock."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sources: dict[Source, bool] = {}

    def watch(self, source: Source, *, is_write_pending: bool = False) -> None:
        self._sources[source] = is_write_pending

    def wait(self, timeout_s: float) -> list[Ready]:
        if not (ready := self._ready()):
            process = self._world.process
            assert process is not None
            process.wait(self._world.now_s + timeout_s, [self])
            ready = self._ready()
        return ready

    def close(self) -> None:
        self._sources.clear()

    @property
    def is_readable(self) -> bool:
        """Return whether a wait would end now."""
        return any(
            _can_read(source) or (is_write_pending and _can_write(source))
            for source, is_write_pending in self._sources.items()
        )

    def _ready(self) -> list[Ready]:
        return [
            Ready(source, _can_read(source), is_write_pending and _can_write(source))
            for source, is_write_pending in self._sources.items()
            if _can_read(source) or (is_write_pending and _can_write(source))
        ]


def _can_read(source: Source) -> bool:
    return bool(getattr(source, "is_readable", False))


def _can_write(source: Source) -> bool:
    return bool(getattr(source, "is_writable", False))
