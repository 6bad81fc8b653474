"""The framework of checks: checks, phases, and the report of their outcomes.

A check is a function of its suite's host that raises an error or returns the facts that it found.
The next check runs in either case. Checks of a scenario share pods, because a pod takes seconds on
an emulated processor: a check finds the pods of earlier checks by name, and all pods are removed at
the scenario's end.

This module knows the records and the order of checks, and no suite.
"""

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

MODES = ("launched", "external")
_PORTS = Path("/sys/class/virtio-ports")


class AnyHost(Protocol):
    """The argument of checks."""

    def remove_all(self) -> None:
        """Remove all pods."""


H = TypeVar("H", bound=AnyHost)


@dataclass(frozen=True, slots=True)
class Check(Generic[H]):
    """A named check, and the modes of the plugin for which it runs."""

    name: str
    run: Callable[[H], str]
    modes: tuple[str, ...] = MODES


Scenario = tuple[Check[H], ...]


@dataclass(frozen=True, slots=True)
class Phase(Generic[H]):
    """One configuration of the machine's services, and its scenarios in their order."""

    name: str
    scenarios: tuple[Scenario[H], ...]
    mode: str = "external"

    @property
    def checks(self) -> tuple[Check[H], ...]:
        """The checks of the phase's mode."""
        found = (check for scenario in self.scenarios for check in scenario)
        return tuple(check for check in found if self.mode in check.modes)


class Report:
    """Sends JSON lines to the host over the virtio port of a name."""

    def __init__(self, port: str) -> None:
        ports = {(p / "name").read_text(encoding="ascii").strip(): p for p in _PORTS.iterdir()}
        self._device = Path("/dev", ports[port].name)

    def write(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        """Send one record."""
        with self._device.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, **fields}) + "\n")


def expect(condition: object, text: str) -> None:
    """Raise AssertionError with `text` unless the condition holds."""
    if not condition:
        raise AssertionError(text)


def run_all(report: Report, phase: Phase[H], host: H) -> list[str]:
    """Run the checks of a phase in their order; return what failed."""
    failures: list[str] = []
    for scenario in phase.scenarios:
        chosen = [check for check in scenario if phase.mode in check.modes]
        failures += [_run_one(report, phase.name, check, host) for check in chosen]
        host.remove_all()
    return [failure for failure in failures if failure]


def _run_one(report: Report, phase: str, check: Check[H], host: H) -> str:
    """Run one check and send its record; return "" if it passed, or its name and why it failed."""
    started = time.monotonic()
    try:
        ok, detail = True, check.run(host)
    except Exception as error:  # noqa: BLE001 - the next check has to run
        last = traceback.extract_tb(error.__traceback__)[-1]
        ok = False
        detail = f"{type(error).__name__} ({Path(last.filename).name}:{last.lineno}): {error}"
    seconds = round(time.monotonic() - started, 2)
    report.write("check", phase=phase, name=check.name, ok=ok, detail=detail, seconds=seconds)
    return "" if ok else f"{check.name}: {detail}"
