"""The conformance tests, several columns of the table at a time: `make conformance`.

    tests/conformance/run.py [--jobs N] [COLUMN ...]

Waiting is most of what the tests do, and each has a runtime and a plugin of its own, so each column
(an NRI version, or the Python peer) is a pytest of its own. Prints what each of them says when it
is done, and one table for all. Exit status 1 if one of them failed or left no outcomes.
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

from tests.conformance import catalog, go_runtime, table  # noqa: E402 - found by the line above

# On two cores: one more than are computing while the others wait.
_JOBS = 3
# What begins first: the columns that take longest.
_LONGEST = (catalog.GO_VERSIONS[-1], catalog.PEER)


def main() -> int:
    """Run the columns that the command line names, or all."""
    parser = argparse.ArgumentParser(description="Test against other implementations of NRI.")
    parser.add_argument("--jobs", type=int, default=_JOBS, help="at a time (%(default)s)")
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
    """Build what is needed, one after the other: each build uses all cores."""
    for column in columns:
        if column != catalog.PEER:
            go_runtime.build(column)


def _path(column: str) -> Path:
    return go_runtime.OUT / f"outcomes-{column}.json"


def _run(column: str) -> bool:
    """Run one column and print what pytest says; tell whether it went well."""
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
