"""The fault run: `make faults`, or `python -m tests.faults.run --help`.

Plays random lives of a node, several at once, and ends with a table. A life that fails is told at
once, with the command that plays it again; its files are kept in build/faults/SEED.
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
from tests.faults.play import Report, play
from tests.faults.plugin import stand_alone
from tests.faults.setting import ALL, EMBEDDED

_OUT = Path(__file__).resolve().parents[2] / "build" / "faults"
_PROGRESS = 25
_AGAIN = 2
# Lives mostly wait: for pauses, timeouts and starts of processes.
_JOBS = 6
_MEMORY = "/dev/shm"  # lives write many small files


def main() -> int:
    """Play what the command line asks for; 1 when a life failed."""
    parser = argparse.ArgumentParser(description="Play random lives of a node, with faults.")
    parser.add_argument("--lives", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (%(default)s)")
    parser.add_argument("--seed", type=int, help="play only this life, and tell its story")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="at once (%(default)s)")
    parser.add_argument("--kinds", choices=(ALL, EMBEDDED), default=ALL)
    args = parser.parse_args()
    if args.kinds == ALL:
        for version in GO_VERSIONS:
            build(version)
    if args.seed is not None:
        stand_alone()
        report = play(args.seed, _OUT / str(args.seed), args.kinds, _memory())
        print("\n".join(story(report)))
        print(report.problem or "It went well.")
        return 1 if report.problem else 0
    return _play_all(range(args.first, args.first + args.lives), args.jobs, args.kinds)


def _memory() -> str | None:
    return _MEMORY if Path(_MEMORY).is_dir() else None


def _play_all(seeds: range, jobs: int, kinds: str) -> int:
    begin = time.monotonic()
    reports: list[Report] = []
    # Spawned, for the lives have threads; and each a parent of its own orphans.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=stand_alone) as pool:
        lives: list[Future[Report]] = [pool.submit(_play_until_clear, s, kinds) for s in seeds]
        for life in as_completed(lives):
            report = life.result()
            reports.append(report)
            if report.problem:
                _tell_failure(report)
            if len(reports) % _PROGRESS == 0:
                count = sum(bool(r.problem) for r in reports)
                took_s = time.monotonic() - begin
                print(f"{len(reports)} lives, {count} failed, {took_s:.0f} s", flush=True)
    print("\n".join(table(reports)))
    failed = sorted(report.seed for report in reports if report.problem)
    if failed:
        print(f"failed: {' '.join(map(str, failed))}")
    return 1 if failed else 0


def _play_until_clear(seed: int, kinds: str) -> Report:
    """Play a life again if it failed while the machine stood still."""
    unclear: list[str] = []
    while True:
        report = play(seed, _OUT / str(seed), kinds, _memory())
        if not report.is_unclear or len(unclear) == _AGAIN:
            report.unclear = unclear
            return report
        unclear.append(report.problem)


def story(report: Report) -> list[str]:
    return [f"{number:3} {line}" for number, line in enumerate(report.story)]


def _tell_failure(report: Report) -> None:
    print(f"--- life {report.seed} failed after {report.took_s:.1f} s")
    print("\n".join(story(report)))
    print(report.problem)
    print(f"Its files: {_OUT / str(report.seed)}. Again: make faults SEED={report.seed}")
    sys.stdout.flush()


def table(reports: list[Report]) -> list[str]:
    """Return what was played, as lines."""
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
    disk = "a tmpfs" if all(r.is_mounted for r in reports) else "RLIMIT_FSIZE, as nothing mounts"
    lines += [
        "",
        f"calls {sum(r.calls for r in reports)}, connections {sum(r.connections for r in reports)}",
        f"answers that the plugin's deadline cut short: {sum(r.cut_short for r in reports)}",
        f"played again because the machine stood still: {sum(len(r.unclear) for r in reports)}",
        f"slowest call {slowest.slowest_s:.2f} s (life {slowest.seed}); full disks by {disk}",
    ]
    return [
        *lines,
        *(f"  life {r.seed}: {text.splitlines()[0][:150]}" for r in reports for text in r.unclear),
    ]


if __name__ == "__main__":
    sys.exit(main())
