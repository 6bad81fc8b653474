"""A journal in the guest, and the stream to it that systemd gives a service as stderr.

The guest has no systemd as process 1; journald makes its sockets itself. This module depends on
systemd's protocols and programs, and not on the plugin.
"""

import os
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.e2e.guest.waiting import TIMEOUT_S, wait_until

_JOURNALD = "/usr/lib/systemd/systemd-journald"
_STREAM = Path("/run/systemd/journal/stdout")
_MACHINE_ID = Path("/etc/machine-id")
# Identifier, unit, priority, whether lines begin with a priority, and three places to copy lines
# to. Source: systemd, src/basic/syslog-util and src/core/exec-invoke.c, connect_logger_as.
_HEADER = b"nri-numamem\nnri-numamem.service\n6\n1\n0\n0\n0\n"


class Journal:
    """A context in which journald runs; `stderr` is a stream to it."""

    def __enter__(self) -> Self:
        """Start journald, and connect the stream."""
        for directory in (_STREAM.parent, Path("/run/log/journal")):
            directory.mkdir(parents=True, exist_ok=True)
        if not _MACHINE_ID.exists() or len(_MACHINE_ID.read_text().strip()) != 32:
            _MACHINE_ID.write_text("0123456789abcdef0123456789abcdef\n")
        self._process = subprocess.Popen([_JOURNALD], stdin=subprocess.DEVNULL)
        wait_until(_STREAM.exists, "the sockets of journald")
        self.stderr = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stderr.connect(str(_STREAM))
        self.stderr.sendall(_HEADER)
        return self

    def __exit__(self, *_: object) -> None:
        """End journald."""
        self.stderr.close()
        self._process.terminate()
        self._process.wait(TIMEOUT_S)

    @property
    def environment(self) -> dict[str, str]:
        """The variable that systemd sets for a service whose stderr is the stream."""
        status = os.fstat(self.stderr.fileno())
        return {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
