"""Runs of phases; a table of records stands for the machines."""

from collections.abc import Sequence

import pytest

from tests.machines.runs import Report, run
from tests.machines.vm import Record, Run


def records(phase: str, *, is_ok: bool = True, ends: bool = True) -> list[Record]:
    """Return the records of a phase with the check "c"."""
    check = {"kind": "check", "phase": phase, "name": "c", "ok": is_ok, "detail": "why"}
    found: list[Record] = [{"kind": "begin", "phase": phase}, check]
    return [*found, {"kind": "end", "phase": phase}] if ends else found


class Machines:
    """Machines that run all phases but some, in which they end."""

    def __init__(self, *fatal: str, failure: str = "panic") -> None:
        self.fatal, self.failure = fatal, failure
        self.boots: list[list[str]] = []

    def boot(self, number: int, phases: Sequence[str]) -> Run:
        self.boots.append(list(phases))
        assert number == len(self.boots)
        sent: list[Record] = [{"kind": "boot", "seconds": 7.0}]
        for phase in phases:
            if phase in self.fatal:
                sent += records(phase, ends=False)
                return Run(tuple(sent), self.failure, "kvm", 20.0)
            sent += records(phase)
        return Run((*sent, {"kind": "done"}), "", "kvm", 40.0)


def run_on(machines: Machines) -> Report:
    return run(["a", "b", "c"], machines.boot)


def test_one_machine_runs_all_phases() -> None:
    machines = Machines()
    report = run_on(machines)
    assert machines.boots == [["a", "b", "c"]]
    assert report.error == ""
    report.expect("a", "c")
    assert report.summary == (
        "machine: kvm, 40 s from power on to off",
        "boot: 7 s until the checks ran",
    )


def test_after_the_end_of_a_machine_the_next_phases_run() -> None:
    machines = Machines("b")
    report = run_on(machines)
    assert machines.boots == [["a", "b", "c"], ["c"]]
    report.expect("a", "c")
    report.expect("b", "c")
    report.expect("c", "c")
    assert report.error == "the machine ended in phase b: panic"
    assert report.summary[2:4] == (
        "THE MACHINE ENDED IN PHASE b; the next phases run on another one:",
        "panic",
    )
    with pytest.raises(AssertionError, match="did not report: panic"):
        report.expect("b", "later")


def test_each_phase_may_end_its_machine() -> None:
    machines = Machines("a", "b", "c")
    report = run_on(machines)
    assert machines.boots == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert set(report.lost) == {"a", "b", "c"}


def test_a_machine_that_begins_no_phase_is_the_last_one() -> None:
    boots: list[int] = []

    def boot(number: int, _phases: Sequence[str]) -> Run:
        boots.append(number)
        return Run((), "no record", "kvm", 30.0)

    report = run(["a", "b"], boot)
    assert (boots, report.error) == ([1], "no record")
    with pytest.raises(AssertionError, match="did not report: no record"):
        report.expect("a", "c")


def test_a_machine_that_ends_between_phases_costs_none() -> None:
    left = [["a", "b"], ["b"]]

    def boot(number: int, phases: Sequence[str]) -> Run:
        assert list(phases) == left[number - 1]
        return Run(tuple(records(phases[0])), "killed" if number == 1 else "", "kvm", 1.0)

    report = run(["a", "b"], boot)
    assert not report.lost
    assert report.error == "killed"
    report.expect("b", "c")


def test_a_failed_check_shows_why() -> None:
    report = run(["a"], lambda _n, _p: Run(tuple(records("a", is_ok=False)), "", "tcg", 1.0))
    with pytest.raises(AssertionError, match="why"):
        report.expect("a", "c")


def test_the_last_record_of_a_check_counts() -> None:
    sent = [*records("a", is_ok=False, ends=False), *records("a")[1:]]
    sent.insert(2, {"kind": "repeated", "phase": "a", "failures": ["c: why"]})
    placed = {"kind": "placements", "phase": "a", "placements": [["web/main", [1]]]}
    report = run(["a"], lambda _n, _p: Run((*sent, placed), "", "tcg", 1.0))
    report.expect("a", "c")
    assert report.placements == {"a": [["web/main", [1]]]}
    assert report.summary[1:] == ("phase a FAILED AND WAS REPEATED:", "c: why")


def test_the_summary_has_facts_of_the_run() -> None:
    sent: tuple[Record, ...] = (
        {"kind": "versions", "kernel": "6.12", "runc": "1.1"},
        {"kind": "begin", "phase": "a"},
        {"kind": "pause", "phase": "a", "seconds": [0.1, 2.0]},
        {"kind": "memory", "phase": "a", "peaks_mib": {"kubelet": 90}},
        {"kind": "phase", "name": "a", "seconds": 31.5},
        {"kind": "broken", "detail": "phase a: c"},
        {"kind": "end", "phase": "a"},
        {"kind": "done"},
    )
    report = run(["a"], lambda _n, _p: Run(sent, "", "kvm", 40.0))
    assert report.error == "phase a: c"
    assert report.summary[1:] == (
        "kernel 6.12, runc 1.1",
        "phase a: longest pause of each processor: 0.1 s, 2.0 s",
        "phase a: peak resident memory: kubelet 90 MiB",
        "phase a: 31.5 s",
    )
