"""Notifications to systemd about the service: ready, status, alive, stopping.

A notification is a datagram with lines of KEY=VALUE to the socket in NOTIFY_SOCKET, which is a path
or, with a leading "@", an abstract name (sd_notify(3)). Without that variable nothing is sent.
Sending neither waits nor raises an exception.
"""

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends notifications. `watchdog_s` is systemd's limit between two of alive(), or None.

    Source: sd_notify(3), sd_watchdog_enabled(3).
    """

    def __init__(self, environment: Mapping[str, str], pid: int | None = None) -> None:
        self.watchdog_s = _watchdog_s(environment, os.getpid() if pid is None else pid)
        self._alive_at_s: float | None = None
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]

    def ready(self, status: str) -> None:
        """Report that the service has started, with a status text."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        """Report a status text for ``systemctl status``."""
        self._send(f"STATUS={_one_line(status)}")

    def alive(self, now_s: float) -> None:
        """Report that the service is alive, if half of systemd's limit has passed.

        `now_s` is the time of a monotonic clock. Nothing is sent without a limit.
        """
        sent_s = self._alive_at_s
        if self.watchdog_s is None or (sent_s is not None and now_s - sent_s < self.watchdog_s / 2):
            return
        self._alive_at_s = now_s
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Report that the service stops."""
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
    """Return systemd's limit in seconds, if there is one for this process."""
    usec = environment.get("WATCHDOG_USEC", "")
    meant_for = environment.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or int(usec) == 0 or meant_for not in ("", str(pid)):
        return None
    return int(usec) / 1_000_000


def _one_line(text: str) -> str:
    return " ".join(text.split())
