"""Run the tests of each room and measure how much of the room they cover, branches included.

One more room at a time than there are processors, because the tests of the daemon mostly wait; the
output of a room is printed when it ends. With `--unit` as many as processors: UNIT_S was set so.

Each room is measured by the tests in the folder of its name and nothing else: a line that only a
test of another room reaches counts as not covered. With `--unit` only the fast tests run, and
nothing is measured but their time. Usage: python -m tests.room_coverage [--unit] [ROOM ...]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / "build" / "coverage"

# Room -> the percentage of its lines and branches that its own tests must reach.
REQUIRED_PERCENT = {
    "numa": 100,
    "memorymanager": 100,
    "topologymanager": 100,
    "engine": 100,
    "scenario": 100,
    "export": 100,
    "ttrpc": 95,
    "grpc": 95,
    "kubelet": 95,
    "config": 95,
    "host": 95,
    "nri": 95,
    "observe": 95,
    "daemon": 95,
    "apiserver": 95,
    "exporter": 95,
    "cli": 95,
}


# Rooms whose tests take longest; they begin first.
LONG = ("cli", "daemon", "engine")

PROCESSORS = os.cpu_count() or 1

# What `make test-unit` may take on an idle machine with two processors.
UNIT_S = 60


@dataclass(frozen=True, slots=True)
class RoomResult:
    """What one run of a room's tests showed."""

    room: str
    tests_passed: bool
    covered_percent: float
    elapsed_s: float
    gaps: tuple[str, ...] = ()
    """Files with lines or branches that no test reached, each with where."""

    @property
    def failure(self) -> str:
        """Return why the room fails, or an empty string."""
        if not self.tests_passed:
            return "tests failed"
        required = REQUIRED_PERCENT[self.room]
        if self.covered_percent < required:
            return f"below {required} %"
        return ""


def measure(room: str) -> RoomResult:
    """Run the tests of one room, and measure what they cover."""
    report = REPORTS / f"{room}.json"
    report.unlink(missing_ok=True)
    options = (f"--cov=nri_numamem.{room}", "--cov-branch", f"--cov-report=json:{report}")
    status, elapsed_s = run_tests(room, *options)
    measured = json.loads(report.read_text()) if report.exists() else {}
    return result_of(room, status, measured, elapsed_s)


def run_fast(room: str) -> tuple[int, float]:
    """Run the tests of one room that are not marked slow; return as `run_tests` does."""
    return run_tests(room, "-m", "not slow")


def run_tests(room: str, *options: str) -> tuple[int, float]:
    """Run tests of a room; return pytest's exit status and the seconds that they took.

    Their output goes to standard output in one piece.
    """
    start_s = time.monotonic()
    completed = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", f"tests/{room}", *options),
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(REPORTS / f"{room}.data")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    sys.stdout.buffer.write(completed.stdout)
    sys.stdout.buffer.flush()
    return completed.returncode, time.monotonic() - start_s


def result_of(room: str, status: int, measured: dict[str, Any], elapsed_s: float) -> RoomResult:
    """Return the result of a run from pytest's exit status and coverage's JSON report."""
    percent = measured.get("totals", {}).get("percent_covered", 0.0)
    gaps = []
    for name, file in sorted(measured.get("files", {}).items()):
        places = [str(line) for line in file["missing_lines"]]
        places += [f"{a}->{b}" for a, b in file.get("missing_branches", ())]
        if places:
            gaps.append(f"{name}: {', '.join(places)}")
    return RoomResult(room, status == 0, percent, elapsed_s, tuple(gaps))


def table(results: Sequence[RoomResult]) -> str:
    """Return the results as text: one line per room, and what the failed rooms lack."""
    lines = [f"{'room':16} {'required':>8} {'covered':>8} {'time':>7}"]
    for r in results:
        required = REQUIRED_PERCENT[r.room]
        # Rounded down: 99.996 % is not 100 %.
        covered = int(r.covered_percent * 100) / 100
        line = f"{r.room:16} {required:7} % {covered:6.2f} % {r.elapsed_s:5.0f} s  {r.failure}"
        lines.append(line.rstrip())
    for r in results:
        if r.failure:
            lines += [f"  {gap}" for gap in r.gaps]
    return "\n".join(lines)


def unit_summary(found: Mapping[str, tuple[int, float]], took_s: float) -> str:
    """Return what the fast tests took, the slowest rooms first, and the rooms that failed."""
    slowest = sorted(found.items(), key=lambda item: -item[1][1])
    times = ", ".join(f"{room} {elapsed_s:.0f}" for room, (_, elapsed_s) in slowest)
    failed = [room for room, (status, _) in found.items() if status]
    return "\n".join(
        [
            f"seconds by room: {times}",
            f"took {took_s:.0f} s; on an idle machine with two processors at most {UNIT_S} s",
            *([f"failed: {', '.join(failed)}"] if failed else []),
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Measure the rooms that are named, or all; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(description="Coverage of each room by its own tests.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="default: every room")
    parser.add_argument("--unit", action="store_true", help="only fast tests, without coverage")
    parsed = parser.parse_args(arguments)
    rooms = parsed.rooms or list(REQUIRED_PERCENT)
    unknown = sorted(set(rooms) - set(REQUIRED_PERCENT))
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    in_order = sorted(rooms, key=lambda room: room not in LONG)
    start_s = time.monotonic()
    with ThreadPoolExecutor(PROCESSORS if parsed.unit else PROCESSORS + 1) as pool:
        if parsed.unit:
            ran = dict(zip(in_order, pool.map(run_fast, in_order), strict=True))
            print(unit_summary(ran, time.monotonic() - start_s))
            return int(any(status for status, _ in ran.values()))
        measured = dict(zip(in_order, pool.map(measure, in_order), strict=True))
    results = [measured[room] for room in rooms]
    print(table(results))
    failed = [r.room for r in results if r.failure]
    if failed:
        print(f"coverage: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
