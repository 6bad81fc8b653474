"""The run of virtual lives: `make lives`, or `python -m tests.lives.run --help`.

Plays random lives of a node on a virtual clock, as many processes at once as there are processors,
and ends with a table. A seed replays a life exactly, timing included.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.lives.play import Report, play

LIVES = 2000
_CHUNK = 20
# Lives between two garbage collections, each of which visits all modules.
_COLLECT = 50
_PROGRESS = 500
_MEMORY = "/dev/shm"  # lives write many small files
# The first failures are enough to find a cause; more would only fill the screen.
_SHOWN = 3


def main() -> int:
    """Play the lives of the command line; return 1 when a life failed."""
    parser = argparse.ArgumentParser(description="Play random lives of a node on a virtual clock.")
    parser.add_argument("--lives", type=int, default=LIVES, help="how many (%(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (%(default)s)")
    parser.add_argument("--seed", type=int, help="play only this life, and print its history")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at once (%(default)s)"
    )
    args = parser.parse_args()
    if args.seed is not None:
        report = play(args.seed, _memory())
        print("\n".join(description(report)))
        print(report.problem or "No failure.")
        return 1 if report.problem else 0
    begin_s = time.monotonic()
    reports = list(_progress(_play_all(args.first, args.lives, args.jobs)))
    for report in [report for report in reports if report.problem][:_SHOWN]:
        print("\n".join(description(report)))
        print(f"{report.problem}\nAgain: make lives SEED={report.seed}\n")
    print("\n".join(table(reports, time.monotonic() - begin_s)))
    return 1 if any(report.problem for report in reports) else 0


def _memory() -> str | None:
    return _MEMORY if Path(_MEMORY).is_dir() else None


def _play_all(first: int, lives: int, jobs: int) -> Iterator[Report]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(_play, range(first, first + lives), chunksize=_CHUNK)


def _play(seed: int) -> Report:
    # The plugin switches the collector off while it serves. Switched on between two connections,
    # it would visit all objects each time.
    gc.disable()
    report = play(seed, _memory())
    if seed % _COLLECT == 0:
        gc.collect()
    if not report.problem:
        report.history.clear()
    report.records.clear()
    return report


def _progress(reports: Iterator[Report]) -> Iterator[Report]:
    failed = 0
    for number, report in enumerate(reports, 1):
        failed += bool(report.problem)
        if number % _PROGRESS == 0:
            print(f"{number} lives, {failed} failed", flush=True)
        yield report


def description(report: Report) -> list[str]:
    """Return the history of a life as numbered lines."""
    head = f"--- life {report.seed}: {report.virtual_s:.0f} virtual seconds"
    return [head, *(f"{number:3} {line}" for number, line in enumerate(report.history))]


def table(reports: list[Report], took_s: float) -> list[str]:
    """Return a summary of all lives, as lines."""
    faults: Counter[str] = Counter()
    for report in reports:
        faults.update(report.faults)
    failed = [report.seed for report in reports if report.problem]
    calls = sorted(report.calls for report in reports)
    connections = sum(report.connections for report in reports)
    hours = sum(report.virtual_s for report in reports) / 3600
    return [
        "",
        f"{'fault':32}{'times':>8}",
        *(f"{name:32}{count:8}" for name, count in faults.most_common()),
        "",
        f"{len(reports)} lives in {took_s:.0f} s, {hours:.0f} virtual hours",
        f"{sum(calls)} calls, at least {calls[0]} in each life; {connections} connections",
        f"lives with partitions: {sum(report.has_partitions for report in reports)}",
        f"failed: {' '.join(map(str, failed)) or 'none'}",
    ]


if __name__ == "__main__":
    sys.exit(main())
