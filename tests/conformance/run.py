"""Run the conformance tests, several columns of the table at the same time: `make conformance`.

    tests/conformance/run.py [--jobs N] [COLUMN ...]

A column is an NRI version or the Python peers. Each column has its own pytest process, because the
tests mostly wait. The script prints the output of each process and one table of all columns. The
exit status is 1 if a process failed or wrote no outcomes.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance import (  # noqa: E402 - found by the line above
    catalog,
    go_runtime,
    table,
)

# Suits two cores: one process waits while two compute.
_JOBS = 3
# These columns take longest, so they begin first.
_LONGEST = (catalog.GO_VERSIONS[-1], catalog.PEER)


def main() -> int:
    """Run the columns of the command line, or all."""
    parser = argparse.ArgumentParser(description="Test against other implementations of NRI.")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="parallel columns (%(default)s)")
    parser.add_argument("columns", nargs="*", metavar="COLUMN", default=catalog.COLUMNS)
    args = parser.parse_args()
    unknown = set(args.columns) - set(catalog.COLUMNS)
    if unknown:
        parser.error(f"no column {min(unknown)}; there are {', '.join(catalog.COLUMNS)}")
    began = time.monotonic()
    _build(args.columns)
    columns = sorted(args.columns, key=lambda column: column not in _LONGEST)
    with ThreadPoolExecutor(args.jobs) as pool:
        passed = list(pool.map(_run, columns))
    outcomes = [outcome for column in columns for outcome in _outcomes(column)]
    print("\n".join(["", "Scenarios by NRI version:", *table.lines(outcomes)]))
    failed = [column for column, well in zip(columns, passed, strict=True) if not well]
    seconds = round(time.monotonic() - began)
    print(f"{len(columns)} columns in {seconds} s; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def _build(columns: list[str]) -> None:
    """Build the harnesses, one after the other: each build uses all cores."""
    for column in columns:
        if column != catalog.PEER:
            go_runtime.build(column)


def _path(column: str) -> Path:
    return go_runtime.OUT / f"outcomes-{column}.json"


def _run(column: str) -> bool:
    """Run one column and print pytest's output; return whether it passed."""
    path = _path(column)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", str(folder), "-q", "--column", column]
    done = subprocess.run(
        [*command, "--outcomes", str(path), "-p", "no:cacheprovider"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(f"--- {column}\n{done.stdout}", end="", flush=True)
    return done.returncode == 0 and path.exists()


def _outcomes(column: str) -> list[table.Outcome]:
    path = _path(column)
    cells = json.loads(path.read_text()) if path.exists() else []
    return [table.Outcome(**cell) for cell in cells]


if __name__ == "__main__":
    sys.exit(main())
