"""What a phase runs on: services of a machine, usually a CRI runtime and the plugin.

This module depends on the order of a phase, and not on a form of the plugin or a check.
"""

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic

from tests.machines.guest import plugin
from tests.machines.guest.checks import H, Report
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import Kubelet
from tests.machines.guest.runtime import Runtime

ARCHIVE = Path("/tmp/image.tar")
"""The image of the pods."""


class Setup(abc.ABC, Generic[H]):
    """The services of one run of a phase.

    `logs` maps names to files, which the host gets after `stop`. `stop` and `remove` are called
    even if `start` failed.
    """

    logs: Mapping[str, Path]

    @abc.abstractmethod
    def start(self) -> H:
        """Install and start all services; return the argument of the checks."""

    def send_facts(self, report: Report, phase: str) -> None:
        """Send further records after the checks."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the services, so that their logs are complete."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Remove the plugin."""


class CriSetup(Setup[Host]):
    """A runtime and the plugin; pods are created over the CRI."""

    def __init__(
        self,
        runtime: Runtime,
        install: Callable[[], plugin.Plugin],
        runtime_log: Path,
        *,
        connects: bool = True,
    ) -> None:
        """Start nothing. `install` returns the installed plugin, which is not connected.

        Without `connects` a check connects it.
        """
        self._runtime, self._install, self._connects = runtime, install, connects
        self._host: Host | None = None
        self._plugin: plugin.Plugin | None = None
        self.logs = {
            runtime_log.stem: runtime_log,
            "plugin": plugin.LOG,
            "commands": plugin.COMMANDS,
        }

    def start(self) -> Host:
        """Install the plugin, start the runtime, and connect the plugin."""
        self._plugin = self._install()
        kubelet = Kubelet(self._runtime.start())
        self._runtime.import_image(ARCHIVE)
        if self._connects:
            self._plugin.connect()
        self._host = Host(self._runtime, self._plugin, kubelet)
        return self._host

    def send_facts(self, report: Report, phase: str) -> None:
        """Send where containers were."""
        if self._host is not None:
            report.write("placements", phase=phase, placements=self._host.placements)

    def stop(self) -> None:
        """Stop the runtime."""
        self._runtime.stop()

    def remove(self) -> None:
        """Remove the plugin."""
        if self._plugin is not None:
            self._plugin.remove()
