"""A phase without a kubelet: pods are created over the CRI, by scenarios with one Host.

This module depends on the order of a phase, and not on a runtime, a form of the plugin or a check.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.guest import checks, plugin
from tests.e2e.guest.checks import Check, Host, Report, Scenario
from tests.e2e.guest.kubelet import Kubelet
from tests.e2e.guest.machine_run import ARCHIVE, send_logs
from tests.e2e.guest.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase):
    """A phase with a title of its own, and its scenarios in their order.

    `settings` are further ones of the plugin, as a service.
    """

    title: str = ""
    scenarios: tuple[Scenario, ...] = ()
    settings: str = ""

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.title

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the phase's mode."""
        found = (check for scenario in self.scenarios for check in scenario)
        return tuple(check for check in found if self.mode in check.modes)


def run(
    report: Report,
    phase: Phase,
    attempt: int,
    runtime: Runtime,
    install: Callable[[], plugin.Plugin],
    runtime_log: Path,
) -> list[str]:
    """Run a phase's checks with a runtime that has not started; return what failed.

    `install` returns the installed plugin, which is not connected.
    """
    started = time.monotonic()
    the_plugin: plugin.Plugin | None = None
    failures: list[str] = []
    try:
        the_plugin = install()
        kubelet = Kubelet(runtime.start())
        runtime.import_image(ARCHIVE)
        the_plugin.connect()
        host = Host(phase, runtime, the_plugin, kubelet)
        failures = checks.run_all(report, host, phase.scenarios)
    except Exception:  # noqa: BLE001 - the other phases run in any case
        failures.append(traceback.format_exc())
    finally:
        runtime.stop()
        logs = {runtime_log.stem: runtime_log, "plugin": plugin.LOG, "commands": plugin.COMMANDS}
        send_logs(report, phase.name, attempt, logs)
        if the_plugin is not None:
            the_plugin.remove()
    report.write("phase", name=phase.name, seconds=round(time.monotonic() - started, 1))
    return failures
