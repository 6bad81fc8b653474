"""Checks, and the phases that run them.

A check is a function of the Host that raises an error or returns the facts that it found. The next
check runs in either case. A phase has one configuration of containerd, kubelet and plugin.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.cluster.guest.host import Host
from tests.e2e.guest.checks import Report, attempt


@dataclass(frozen=True, slots=True)
class Check:
    """A named check."""

    name: str
    run: Callable[[Host], str]


Scenario = tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """One configuration and its checks.

    `kubelet` has settings of the kubelet, as in its configuration file. With `has_api_server` the
    pods come from an API server on the machine's host, else from manifests.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    cgroup_driver: str = "systemd"
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    has_api_server: bool = False

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks in their order."""
        return tuple(check for scenario in self.scenarios for check in scenario)


def run_all(report: Report, phase: Phase, host: Host) -> list[str]:
    """Run the checks of a phase in their order; return what failed.

    All pods are removed at the end of a scenario.
    """
    failures = []
    for scenario in phase.scenarios:
        failures += _run_scenario(report, phase.name, host, scenario)
        host.remove_all()
    return [failure for failure in failures if failure]


def _run_scenario(report: Report, phase: str, host: Host, scenario: Iterable[Check]) -> list[str]:
    return [attempt(report, phase, check.name, partial(check.run, host)) for check in scenario]
