"""The fault run: `make faults`, or `python -m tests.faults.run --help`.

Plays random lives of a node, several at once, and ends with a table. A failed life is printed at
once, with the command that repeats it; its files are kept in build/faults/SEED.
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.conformance.catalog import GO_VERSIONS
from tests.conformance.go_runtime import build
from tests.faults.loop_disk import remove_leftovers
from tests.faults.parameters import ALL, FAKE
from tests.faults.play import Report, play
from tests.faults.plugin import isolate_process

_OUT = Path(__file__).resolve().parents[2] / "build" / "faults"
_PROGRESS = 25
_AGAIN = 2
_PROBLEM_CHARS = 600
# Lives mostly wait for pauses, timeouts and starts of processes.
_JOBS = 6
_MEMORY = "/dev/shm"  # lives write many small files


def main() -> int:
    """Play the lives of the command line; return 1 when a life failed."""
    parser = argparse.ArgumentParser(description="Play random lives of a node, with faults.")
    parser.add_argument("--lives", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (%(default)s)")
    parser.add_argument("--seed", type=int, help="play only this life, and print its history")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="at once (%(default)s)")
    parser.add_argument("--kinds", choices=(ALL, FAKE), default=ALL)
    args = parser.parse_args()
    for image in remove_leftovers(Path(_MEMORY)):
        print(f"removed what a killed run left: {image}")
    if args.kinds == ALL:
        for version in GO_VERSIONS:
            build(version)
    if args.seed is not None:
        isolate_process()
        report = play(args.seed, _OUT / str(args.seed), args.kinds, _memory())
        print("\n".join(history(report)))
        print(report.problem or "No failure.")
        return 1 if report.problem else 0
    return _play_all(range(args.first, args.first + args.lives), args.jobs, args.kinds)


def _memory() -> str | None:
    return _MEMORY if Path(_MEMORY).is_dir() else None


def _play_all(seeds: range, jobs: int, kinds: str) -> int:
    begin = time.monotonic()
    reports: list[Report] = []
    # Spawned, because lives have threads; each worker is the parent of its own orphans.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=isolate_process) as pool:
        lives: list[Future[Report]] = [pool.submit(_play_until_conclusive, s, kinds) for s in seeds]
        for life in as_completed(lives):
            report = life.result()
            reports.append(report)
            if report.problem:
                _print_failure(report)
            if len(reports) % _PROGRESS == 0:
                count = sum(bool(r.problem) for r in reports)
                took_s = time.monotonic() - begin
                print(f"{len(reports)} lives, {count} failed, {took_s:.0f} s", flush=True)
    print("\n".join(table(reports)))
    failed = failures(reports)
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


def _play_until_conclusive(seed: int, kinds: str) -> Report:
    """Repeat a life that failed while the machine stood still."""
    inconclusive: list[str] = []
    while True:
        report = play(seed, _OUT / str(seed), kinds, _memory())
        if not report.is_inconclusive or len(inconclusive) == _AGAIN:
            report.inconclusive = inconclusive
            return report
        inconclusive.append(report.problem)


def history(report: Report) -> list[str]:
    return [f"{number:3} {line}" for number, line in enumerate(report.history)]


def _print_failure(report: Report) -> None:
    print(f"--- life {report.seed} failed after {report.took_s:.1f} s")
    print("\n".join(history(report)))
    print(report.problem)
    print(f"Its files: {_OUT / str(report.seed)}. Again: make faults SEED={report.seed}")
    sys.stdout.flush()


def failures(reports: list[Report]) -> list[str]:
    """Return a line for each failed life, by seed, with the beginning of its problem."""
    failed = sorted((r for r in reports if r.problem), key=lambda report: report.seed)
    return [f"failed: {_problem_line(report.seed, report.problem)}" for report in failed]


def _problem_line(seed: int, problem: str) -> str:
    return f"life {seed}: {problem.splitlines()[0][:_PROBLEM_CHARS]}"


def table(reports: list[Report]) -> list[str]:
    """Return a summary of all lives, as lines."""
    lives = Counter(report.side for report in reports)
    failed = Counter(report.side for report in reports if report.problem)
    faults: Counter[str] = Counter()
    for report in reports:
        faults.update(report.faults)
    lines = ["", f"{'runtime side':32}{'lives':>7}{'failed':>8}"]
    lines += [f"{side:32}{count:7}{failed[side]:8}" for side, count in sorted(lives.items())]
    lines += ["", f"{'fault':32}{'times':>7}"]
    lines += [f"{name:32}{count:7}" for name, count in faults.most_common()]
    slowest = max(reports, key=lambda report: report.slowest_s)
    disk = "mounts" if all(r.is_mounted for r in reports) else "RLIMIT_FSIZE, as nothing mounts"
    lines += [
        "",
        f"calls {sum(r.calls for r in reports)}, connections {sum(r.connections for r in reports)}",
        f"lives with partitions: {sum(r.has_partitions for r in reports)}",
        f"requests that the plugin timed out: {sum(r.timed_out_requests for r in reports)}",
        f"repeated because the machine stood still: {sum(len(r.inconclusive) for r in reports)}",
        f"slowest call {slowest.slowest_s:.2f} s (life {slowest.seed}); full disks by {disk}",
        _freezes(reports),
    ]
    return [
        *lines,
        *(f"  {_problem_line(r.seed, text)}" for r in reports for text in r.inconclusive),
    ]


def _freezes(reports: list[Report]) -> str:
    """Return whether file systems could be frozen, as one line."""
    without = [report for report in reports if report.unfreezable_reason]
    if not without:
        return "disks that can be frozen: in all lives"
    reason = without[0].unfreezable_reason
    return f"lives without the fault 'disk frozen': {len(without)} ({reason})"


if __name__ == "__main__":
    sys.exit(main())
