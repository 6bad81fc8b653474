"""Run phases on one machine after the other, until each phase has run or has ended its machine.

This module depends on the kinds of records, and not on QEMU or the checks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machines.vm import Run


@dataclass(frozen=True, slots=True)
class Report:
    """The report of the phases of one system; `error` is empty for a complete run.

    `checks` maps (phase, check) to its record: ok, detail, seconds. `lost` maps a phase in which
    the machine ended to the reason. `placements` maps a phase to nodes of containers.
    """

    error: str
    checks: Mapping[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    placements: Mapping[str, list[Any]] = field(default_factory=dict)
    summary: tuple[str, ...] = ()

    def expect(self, phase: str, check: str) -> None:
        """Raise AssertionError unless a check passed."""
        record = self.checks.get((phase, check))
        reason = self.lost.get(phase, self.error)
        assert record is not None, f"did not report: {reason}"
        assert record["ok"], record["detail"]


def run(phases: Sequence[str], boot: Callable[[int, Sequence[str]], Run]) -> Report:
    """Run phases in this order; after a phase in which a machine ended, boot it for the next ones.

    `boot` gets the number of the machine, from 1, and the phases that are left. A phase in which
    a machine ended is not repeated. A machine that begins no phase is the last one.
    """
    runs: list[Run] = []
    lost: dict[str, str] = {}
    left = list(phases)
    errors: list[str] = []
    begun = {""}
    while left and begun:
        runs.append(boot(len(runs) + 1, left))
        failure = runs[-1].failure
        begun, ended = (_phases(runs[-1], kind) for kind in ("begin", "end"))
        running = [phase for phase in left if phase in begun - ended]
        if running:
            lost[running[0]] = failure
        elif failure or not begun:
            errors.append(failure or "the machine ended without running a phase")
        left = [phase for phase in left if phase not in begun]
    records = [record for each in runs for record in each.records]
    broken = [record["detail"] for record in records if record["kind"] == "broken"]
    ends = [f"the machine ended in phase {phase}: {reason}" for phase, reason in lost.items()]
    return Report(
        error="\n".join([*broken, *ends, *errors]),
        checks={(r["phase"], r["name"]): r for r in records if r["kind"] == "check"},
        lost=lost,
        placements={r["phase"]: r["placements"] for r in records if r["kind"] == "placements"},
        summary=tuple(_summary(runs, lost)),
    )


def _phases(run: Run, kind: str) -> set[str]:
    return {record["phase"] for record in run.records if record["kind"] == kind}


def _summary(runs: Sequence[Run], lost: Mapping[str, str]) -> Iterator[str]:
    for each in runs:
        yield f"machine: {each.accelerator}, {each.duration_s:.0f} s from power on to off"
        for record in each.records:
            yield from _lines(record)
        for phase in sorted(lost.keys() & _phases(each, "begin")):
            if phase not in _phases(each, "end"):
                yield f"THE MACHINE ENDED IN PHASE {phase}; the next phases run on another one:"
                yield lost[phase]


def _lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield what the summary has of a record about the run itself."""
    kind = record["kind"]
    if kind == "boot":
        yield f"boot: {record['seconds']:.0f} s until the checks ran"
    elif kind == "versions":
        yield ", ".join(f"{name} {record[name]}" for name in record if name != "kind")
    elif kind == "pause":
        seconds = ", ".join(f"{each} s" for each in record["seconds"])
        yield f"phase {record['phase']}: longest pause of each processor: {seconds}"
    elif kind == "repeated":
        yield f"phase {record['phase']} FAILED AND WAS REPEATED:"
        yield from record["failures"]
    elif kind == "memory":
        peaks = ", ".join(f"{name} {mib} MiB" for name, mib in record["peaks_mib"].items())
        yield f"phase {record['phase']}: peak resident memory: {peaks}"
    elif kind == "phase":
        yield f"phase {record['name']}: {record['seconds']} s"
