"""`nri-numamem export` or `agent` as a process on a live host, beside an API server in this one."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.cli.export.export_host import ExportHost
from tests.kubernetes_api import KubernetesApi
from tests.simulated_host import PLUGIN, WAIT_S, wait_for


class ExporterProcess:
    """A context in which the process runs; its log is JSON in a file."""

    def __init__(
        self,
        directory: Path,
        host: ExportHost,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = PLUGIN,
        name: str = "export",
    ) -> None:
        self._log = directory / "exporter.log"
        self._arguments = (*host.arguments(), "--log-level", "debug", *arguments)
        self._environment = {**os.environ, **(environment or {})}
        self._command = (*command, name)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*self._command, *self._arguments],
                env=self._environment,
                stderr=log,
                text=True,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(WAIT_S)

    def stop(self) -> int:
        """Stop it by SIGTERM; return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(WAIT_S)

    def records(self) -> list[dict[str, Any]]:
        """Return what it has logged so far."""
        lines = self._log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def events(self) -> list[str]:
        return [record["event"] for record in self.records()]

    def wait_event(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait for records of an event; return the newest."""
        wait_for(lambda: self.events().count(event) >= count, f"{count} records {event!r}")
        return [record for record in self.records() if record["event"] == event][-1]


def in_pod(api: KubernetesApi, directory: Path) -> tuple[dict[str, str], list[str]]:
    """Return the environment and the options of a pod with a service account."""
    account = api.write_service_account(directory / "account")
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(api.port),
        "NODE_NAME": "worker-1",
    }
    return environment, ["--service-account", str(account)]
