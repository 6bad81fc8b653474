"""The framework of checks: phases, the argument of a check, and the report of its outcome.

A check is a function of the Host that raises an error or returns the facts that it found. The next
check runs in either case. Checks of a scenario share pods, because a pod takes seconds on an
emulated processor: a check finds the pods of earlier checks by name, and all pods are removed at
the scenario's end.

This module knows the records and the order of checks, and no scenario.
"""

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.guest import cgroups
from tests.e2e.guest.cri_pb2 import CONTAINER_RUNNING
from tests.e2e.guest.kubelet import Kubelet, Pod
from tests.e2e.guest.plugin import Plugin
from tests.e2e.guest.runtime import Runtime

MODES = ("launched", "external")
_PORTS = Path("/sys/class/virtio-ports")


@dataclass(frozen=True, slots=True)
class Phase:
    """One configuration; `hugetlb` is True with `disable_hugetlb_controller = false`.

    By default the plugin is the single file (launched), or the service of the Debian package
    (external); with hugetlb it is the wheel. The phase "package" is the life of the package itself.
    """

    mode: str
    hugetlb: bool = False
    is_package: bool = False

    @property
    def name(self) -> str:
        """The name in reports: "external-hugetlb"."""
        if self.is_package:
            return "package"
        return f"{self.mode}-{'hugetlb' if self.hugetlb else 'default'}"


# The first one installs only the single file, so it runs while nothing else was ever installed.
PHASES = (
    *(Phase(mode, hugetlb) for hugetlb in (False, True) for mode in MODES),
    Phase("external", is_package=True),
)


@dataclass(slots=True)
class Host:
    """The argument of a check; `placements` lists (check, container, nodes) of containers."""

    phase: Phase
    runtime: Runtime
    plugin: Plugin
    kubelet: Kubelet
    placements: list[tuple[str, str, list[int]]] = field(default_factory=list)
    check_name: str = ""

    def nodes(self, pod: Pod, container: str = "main") -> frozenset[int]:
        """Return a container's `cpuset.mems`, and append it to the placements."""
        nodes = cgroups.nodes(pod.parent, pod.container_ids[container])
        self.placements.append((self.check_name, f"{pod.spec.name}/{container}", sorted(nodes)))
        return nodes

    def restart_runtime(self, *, killed: bool) -> None:
        """Stop the runtime, start it again and wait for the plugin's connection."""
        if killed:
            self.runtime.kill()
        else:
            self.runtime.stop()
        self.kubelet.client.close()
        self.kubelet.client = self.runtime.start()
        self.runtime.wait_for_plugin(launched=self.plugin.launched)

    @contextlib.contextmanager
    def without_plugin(self) -> Iterator[None]:
        """End an external plugin by SIGTERM; afterwards start it, and wait for its connection."""
        try:
            with self.runtime.ignoring_a_lost_plugin():
                self.plugin.terminate()
                self.plugin.wait_for_end()
                yield
        finally:
            self.start_plugin()

    def start_plugin(self) -> None:
        """Start an external plugin that has ended, and wait for its new connection."""
        with self.runtime.ignoring_a_lost_plugin():
            self.plugin.restart()
            self.runtime.wait_for_plugin(launched=False)

    def running(self) -> dict[str, tuple[Any, ...]]:
        """Return "pod/container" -> id, processes, nodes, none of which a restart may change.

        Only containers that run according to the CRI are included.
        """
        states = {each.id: each.state for each in self.kubelet.client.list_containers()}
        found: dict[str, tuple[Any, ...]] = {}
        for pod in self.kubelet.pods:
            for name, container_id in pod.container_ids.items():
                if states.get(container_id) == CONTAINER_RUNNING:
                    processes = cgroups.processes(pod.parent, container_id)
                    mems = cgroups.read(pod.parent, container_id, "cpuset.mems")
                    found[f"{pod.spec.name}/{name}"] = (container_id, processes, mems)
        return found


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; a check of a single mode must not call Host.nodes()."""

    name: str
    run: Callable[[Host], str]
    modes: tuple[str, ...] = MODES


Scenario = tuple[Check, ...]


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


def attempt(report: Report, phase: str, name: str, run: Callable[[], str]) -> str:
    """Run one check and send its record; return "" if it passed, or its name and why it failed."""
    started = time.monotonic()
    try:
        ok, detail = True, run()
    except Exception as error:  # noqa: BLE001 - the next check has to run
        last = traceback.extract_tb(error.__traceback__)[-1]
        ok = False
        detail = f"{type(error).__name__} ({Path(last.filename).name}:{last.lineno}): {error}"
    seconds = round(time.monotonic() - started, 2)
    report.write("check", phase=phase, name=name, ok=ok, detail=detail, seconds=seconds)
    return "" if ok else f"{name}: {detail}"


def run_all(report: Report, host: Host, scenarios: Iterable[Scenario]) -> list[str]:
    """Run the checks of the host's phase in their order; return what failed."""
    failures = []
    for scenario in scenarios:
        for check in scenario:
            if host.phase.mode in check.modes:
                host.check_name = check.name
                run = partial(check.run, host)
                failures.append(attempt(report, host.phase.name, check.name, run))
        host.kubelet.remove_all()
    return [failure for failure in failures if failure]
