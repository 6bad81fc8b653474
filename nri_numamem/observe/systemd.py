"""Messages to systemd about the service: ready, what it does, still alive, stopping.

A message is lines of KEY=VALUE in one datagram to the socket that NOTIFY_SOCKET names, a path or,
with "@" in front, an abstract name (sd_notify(3)). Without that variable nothing is sent, and
nothing here ever waits or raises: the service does not depend on who watches it.
"""

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Tells systemd; `watchdog_s` is how often it wants to hear, None for never.

    Source: sd_notify(3), sd_watchdog_enabled(3).
    """

    def __init__(self, environment: Mapping[str, str], pid: int | None = None) -> None:
        self.watchdog_s = _watchdog_s(environment, os.getpid() if pid is None else pid)
        self._told_alive_s: float | None = None
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]

    def ready(self, status: str) -> None:
        """Say that the service works, and what it is doing."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        """Say what the service is doing, for ``systemctl status``."""
        self._send(f"STATUS={_one_line(status)}")

    def alive(self, now_s: float) -> None:
        """Say that the service still works, when half of systemd's limit is over since the last.

        `now_s` is the time on a monotonic clock. Nothing is sent when nobody watches.
        """
        told_s = self._told_alive_s
        if self.watchdog_s is None or (told_s is not None and now_s - told_s < self.watchdog_s / 2):
            return
        self._told_alive_s = now_s
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the service ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock,
        ):
            sock.sendto(message.encode("utf-8", "replace"), self._address)


def _watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    """Return systemd's limit in seconds, if it is for this process."""
    usec = environment.get("WATCHDOG_USEC", "")
    meant_for = environment.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or int(usec) == 0 or meant_for not in ("", str(pid)):
        return None
    return int(usec) / 1_000_000


def _one_line(text: str) -> str:
    return " ".join(text.split())
