"""A suite: the virtual machines of a module of tests, and how they are run."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.machines import drive, image, runs, vm
from tests.machines.guest.checks import Check
from tests.machines.progress import Build, Progress

_TIMEOUT_S = 2400.0  # twice the duration of both systems of tests/e2e on two cores with TCG


@dataclass(frozen=True, slots=True)
class Contents:
    """What a suite adds to its machines: files of the drive by name, and arguments of QEMU."""

    artefacts: Mapping[str, Path]
    devices: Sequence[str] = vm.NO_NETWORK


@dataclass(frozen=True, slots=True)
class Suite:
    """The machines of one module of tests.

    `name` is that of its folder in build/. `guest` is the folder of its programs for the guest,
    with phases.py; `checks` maps its phases to the names of their checks. `contents` gets the
    phases to run. `systems` are suites of Debian, whose machines run at once.
    `minutes` is about how long all phases take, `builds` what `contents` may have to build.
    """

    name: str
    guest: Path
    checks: Mapping[str, tuple[str, ...]]
    contents: Callable[[Sequence[str], Progress], AbstractContextManager[Contents]]
    minutes: float
    systems: tuple[str, ...] = ("sid",)
    variant: image.Variant = image.PLAIN
    builds: tuple[Build, ...] = ()

    @property
    def names(self) -> list[tuple[str, str]]:
        """(phase, check) of every report of a complete run."""
        return [(phase, check) for phase, names in self.checks.items() for check in names]

    @property
    def out(self) -> Path:
        """The folder of logs and of what is built for the drive."""
        return drive.ROOT / "build" / self.name

    def ordered(self, phases: Iterable[str]) -> list[str]:
        """Return phases in their order; all without any."""
        wanted = set(phases)
        return [name for name in self.checks if name in wanted] or list(self.checks)


class _Phase(Protocol):
    """A phase of the guest."""

    @property
    def name(self) -> str: ...

    @property
    def checks(self) -> tuple[Check[Any], ...]: ...


def checks_of(phases: Iterable[_Phase]) -> dict[str, tuple[str, ...]]:
    """Return phase -> names of its checks."""
    return {phase.name: tuple(check.name for check in phase.checks) for phase in phases}


def run(
    suite: Suite, selected: Mapping[str, Iterable[str]], progress: Progress
) -> dict[str, runs.Report]:
    """Run machines at once; return system -> report. `selected` has the phases of each system."""
    suite.out.mkdir(parents=True, exist_ok=True)
    phases = suite.ordered(name for names in selected.values() for name in names)
    with suite.contents(phases, progress) as contents:
        path = suite.out / "drive.tar"
        drive.write(path, contents.artefacts, suite.guest)
        one = partial(_run_system, suite, contents.devices, path, progress)
        with ThreadPoolExecutor(len(selected)) as pool:
            ordered = [suite.ordered(names) for names in selected.values()]
            return dict(zip(selected, pool.map(one, selected, ordered), strict=True))


def _run_system(
    suite: Suite,
    devices: Sequence[str],
    path: Path,
    progress: Progress,
    system: str,
    phases: Sequence[str],
) -> runs.Report:
    """Build the image if needed, run the phases, and write the logs of the guest."""
    began_s = time.monotonic()
    name = f"{suite.name} {system}"
    try:
        made = image.ensure(system, suite.variant, progress)
    except image.ImageError as error:
        return runs.Report(str(error), summary=(str(error),))
    image_s = time.monotonic() - began_s
    deadline_s = time.monotonic() + _TIMEOUT_S
    module = ".".join((*suite.guest.relative_to(drive.ROOT).parts, "phases"))

    def boot(number: int, left: Sequence[str]) -> vm.Run:
        file = system if number == 1 else f"{system}-{number}"
        arguments = (f"machines.suite={module}", f"machines.phases={','.join(left)}")
        machine = vm.Machine(file, made, path, suite.out, devices, arguments)
        progress.line(f"{name}: machine {number} starts, for {len(left)} phases")
        done = vm.boot(machine, deadline_s, progress.of_machine(name))
        if done.failure:
            progress.line(f"{name}: machine {number}: {done.failure.splitlines()[0]}")
        _write_logs(done, suite.out, system)
        return done

    report = runs.run(phases, boot)
    first = f"image: built from {made.source}, ready after {image_s:.0f} s"
    return replace(report, summary=(first, *report.summary))


def _write_logs(done: vm.Run, out: Path, system: str) -> None:
    for record in done.records:
        if record["kind"] == "log":
            (out / f"{system}-{record['name']}").write_text(record["text"], encoding="utf-8")
