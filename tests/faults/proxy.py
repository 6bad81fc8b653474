"""A proxy between plugin and runtime that can cut, stall and delay the connection.

The plugin connects to a Unix socket. A connection is forwarded only from `connect` on, so that no
reconnection happens during a step: runtimes delay plugins during operations as well
(BlockPluginSync of NRI >= 0.7). The proxy forwards chunks of bytes and knows no messages: a runtime
has one request open at a time, so the next bytes of the plugin are the reply.
"""

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

_RECEIVE_BYTES = 1 << 18

# Interval between checks whether a plugin can still connect.
_LOOK_S = 0.1

# A stopped peer must not prevent a cut.
_SEND_TIMEOUT_S = 5.0


def _alive(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)
    return not poll.poll(0)


class SocketProxy:
    """Listens at `path` from `open()` on."""

    def __init__(self, path: Path) -> None:
        self.is_connected = False
        """Whether a plugin is connected to the runtime."""
        self.on_request: Callable[[], None] | None = None
        """Called once, after the next bytes for the plugin have been forwarded."""
        self._path = path
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._wake_end, self._wake = os.pipe()
        self._is_stalled = False
        self._cut_at = 0
        self._is_cut = False

    def open(self) -> None:
        """Listen, as a started runtime does."""
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()

    def stop_listening(self) -> None:
        """Stop listening, as a dead runtime does; cut waiting and forwarded connections."""
        if self._listener is not None:
            self._path.unlink(missing_ok=True)
            self._listener.close()
            self._listener = None
        self.cut()

    def connect(
        self, target: Path, timeout_s: float, cannot_connect: Callable[[], bool] = lambda: False
    ) -> bool:
        """Forward the next living plugin to the runtime at `target`; return False without one."""
        self.cut()
        plugin = self._accept(time.monotonic() + timeout_s, cannot_connect)
        if plugin is None:
            return False
        runtime = socket.socket(socket.AF_UNIX)
        try:
            runtime.connect(str(target))
        except OSError:
            runtime.close()
            plugin.close()
            return False
        for sock in (plugin, runtime):
            sock.settimeout(_SEND_TIMEOUT_S)
        self._is_cut, self._is_stalled, self.is_connected = False, False, True
        self._thread = threading.Thread(target=self._relay, args=(plugin, runtime), daemon=True)
        self._thread.start()
        return True

    def _accept(self, deadline: float, cannot_connect: Callable[[], bool]) -> socket.socket | None:
        assert self._listener is not None
        self._listener.settimeout(_LOOK_S)
        while time.monotonic() < deadline:
            try:
                sock, _ = self._listener.accept()
            except TimeoutError:
                if cannot_connect():
                    break
                continue
            if _alive(sock):
                return sock
            sock.close()
        return None

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait until the connection is closed; return False if it stays open."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.is_connected

    def cut(self) -> None:
        """Close the connection on both sides."""
        self._is_cut = True
        self._poke()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def cut_at_reply(self, number: int = 1) -> None:
        """Cut the connection when the plugin sends for the `number`-th time from now; 0: never."""
        self._cut_at = number

    def stall(self) -> None:
        """Read nothing from the plugin."""
        self._is_stalled = True
        self._poke()

    def resume_reading(self) -> None:
        """Read from the plugin again."""
        self._is_stalled = False
        self._poke()

    def close(self) -> None:
        """Close all sockets."""
        self.stop_listening()
        os.close(self._wake)
        os.close(self._wake_end)

    def _poke(self) -> None:
        os.write(self._wake, b"!")

    def _relay(self, plugin: socket.socket, runtime: socket.socket) -> None:
        with plugin, runtime, contextlib.suppress(OSError):
            while not self._is_cut:
                watched: list[socket.socket | int] = [self._wake_end, runtime]
                if not self._is_stalled:
                    watched.append(plugin)
                ready, _, _ = select.select(watched, [], [])
                if self._wake_end in ready:
                    os.read(self._wake_end, 4096)
                if plugin in ready and not self._upward(plugin, runtime):
                    break
                if runtime in ready and not self._downward(runtime, plugin):
                    break
            # Before a peer sees the end.
            self.is_connected = False
        self.is_connected = False

    def _upward(self, plugin: socket.socket, runtime: socket.socket) -> bool:
        data = plugin.recv(_RECEIVE_BYTES)
        if self._cut_at:
            self._cut_at -= 1
            if not self._cut_at:
                return False
        runtime.sendall(data)
        return bool(data)

    def _downward(self, runtime: socket.socket, plugin: socket.socket) -> bool:
        data = runtime.recv(_RECEIVE_BYTES)
        plugin.sendall(data)
        then, self.on_request = self.on_request, None
        if then is not None and data:
            then()
        return bool(data)
