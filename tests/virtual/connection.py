"""The runtime's end of a connection in memory.

The rules of the protocol are those of ``tests.laboratory``; only the transport and the clock are
virtual.
"""

from collections.abc import Callable

from nri_numamem.nri.multiplexer import MuxError
from tests.laboratory.connection import PluginConnection, go_framer
from tests.laboratory.version import RuntimeVersion
from tests.virtual.channel import VirtualChannel
from tests.virtual.world import World

# Virtual time between the runtime's bytes and the plugin's process.
_LATENCY_S = 50e-6


class VirtualConnection(PluginConnection):
    """The runtime's end of a channel in memory."""

    def __init__(self, world: World, version: RuntimeVersion) -> None:
        self._begin(go_framer(version.max_frame_payload_bytes))
        self.channel = VirtualChannel(self._on_data)
        """The plugin's end."""
        self.cut_at_reply = 0
        """Cut the connection when the plugin sends for this time from now; 0 for never."""
        self._world = world

    def close(self) -> None:
        self.channel.cut()
        self.closed = True

    def _on_data(self, data: bytes) -> None:
        if self.cut_at_reply:
            self.cut_at_reply -= 1
            if not self.cut_at_reply:
                self.close()
        if not self.closed:
            try:
                self._receive(data)
            except MuxError:
                self.close()

    def _pump(self, done: Callable[[], bool], timeout_s: float) -> bool:
        data, self._out = bytes(self._out), bytearray()
        if data:
            self._world.after(_LATENCY_S, lambda: self.channel.deliver(data))

        def is_over() -> bool:
            self.closed |= self.channel.is_closed
            return self.closed or done()

        self._world.advance(timeout_s, is_over)
        return done()
