"""The whole benchmark: what the plugin costs, compared with plugins written in Go.

Run `make bench`, or `python -m tests.bench.run --quick` to see whether everything runs; quick
figures mean nothing. The program prints tables, and writes them to build/bench.md and all numbers
to build/bench.json. docs/benchmark.md explains the measurements. A missed target does not fail the
run; a measurement that could not be taken does.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import go_programs, installed, machine
from tests.bench.go_runtime import RuntimeSideError
from tests.bench.host import Programs
from tests.bench.report import MISSED, REACHED, Results, tables_text, target_rows, with_results
from tests.bench.sections import QUICK, SECTIONS, Bench, Size, Table
from tests.bench.targets import TARGETS

OUT = Path("build")


def main() -> int:
    """Measure, print and write; return 1 when something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a little of everything, in 90 s")
    names = [section.__name__ for section in SECTIONS.values()]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--page", type=Path, help="also replace the tables in this page")
    args = parser.parse_args()
    results = Results(machine.describe())
    for name, value in results.machine.items():
        print(f"{name}: {value}")
    print(machine.BUSY_MACHINE, flush=True)
    results.machine = {**results.machine, "priority": machine.raise_priority()}
    progress = _clock()
    progress("installing the plugin, building the Go programs")
    size = QUICK if args.quick else Size()
    plugin = installed.install("all")
    versions = dict.fromkeys(case.version for case in size.cases)
    programs = {version: Programs(plugin, go_programs.build(version)) for version in versions}
    bench = Bench(programs, size, results, progress)
    tables: dict[str, Table] = {}
    failed = []
    for title, section in SECTIONS.items():
        if section.__name__ in args.only:
            try:
                tables[title] = section(bench)
            except (RuntimeError, RuntimeSideError, OSError, subprocess.SubprocessError) as error:
                progress(f"{title} could not be measured: {error}")
                failed.append(title)
    results.figures["not_measured"] = failed
    write(results, tables, args.page)
    progress("done" if not failed else f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def write(results: Results, tables: Mapping[str, Table], page: Path | None) -> None:
    """Print the tables, and write them and the numbers to files."""
    rows = target_rows(TARGETS, results)
    found = [(name, str(value)) for name, value in results.machine.items()]
    text = tables_text({"Targets": rows, **tables, "Machine": [("what", "which"), *found]})
    text += f"\n{machine.BUSY_MACHINE}\n"
    print(text)
    verdicts = [row[-1] for row in rows]
    print(f"{verdicts.count(REACHED)} targets reached, {verdicts.count(MISSED)} missed")
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.md").write_text(text, encoding="utf-8")
    (OUT / "bench.json").write_text(results.as_json(), encoding="utf-8")
    print(f"written to {OUT / 'bench.md'} and {OUT / 'bench.json'}")
    if page is not None:
        page.write_text(with_results(page.read_text("utf-8"), text), encoding="utf-8")


def _clock() -> Callable[[str], None]:
    began_s = time.monotonic()

    def progress(text: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {text}", file=sys.stderr, flush=True)

    return progress


if __name__ == "__main__":
    sys.exit(main())
