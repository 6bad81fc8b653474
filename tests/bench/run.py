"""The whole benchmark: what the plugin costs beside plugins in Go that one could have instead.

Run `make bench`, or `python -m tests.bench.run --quick` for a look that proves nothing. It prints
tables, and writes them to build/bench.md and all numbers to build/bench.json. docs/benchmark.md
says what is measured, and what came of it. A target that is missed does not make it fail; what
could not be measured does.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import go_programs, installed
from tests.bench.go_runtime import RuntimeSideError
from tests.bench.host import Programs
from tests.bench.report import (
    MISSED,
    REACHED,
    Results,
    tables_text,
    target_rows,
    with_results,
)
from tests.bench.sections import QUICK, SECTIONS, Bench, Size, Table
from tests.bench.targets import TARGETS

OUT = Path("build")

# What else runs on this machine shall not be measured.
NICENESS = -15


def main() -> int:
    """Measure, print, write; 1 when something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="much less of everything")
    names = [section.__name__ for section in SECTIONS.values()]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--page", type=Path, help="put the tables into this page too")
    args = parser.parse_args()
    say = _clock()
    say("installing the plugin, building the Go programs")
    plugin = installed.install("all")
    programs = {
        version: Programs(plugin, go_programs.build(version)) for version in go_programs.VERSIONS
    }
    results = Results(machine() | {"priority": raise_priority()})
    bench = Bench(programs, QUICK if args.quick else Size(), results, say)
    tables: dict[str, Table] = {}
    failed = []
    for title, section in SECTIONS.items():
        if section.__name__ in args.only:
            try:
                tables[title] = section(bench)
            except (RuntimeError, RuntimeSideError, OSError, subprocess.SubprocessError) as error:
                say(f"{title} could not be measured: {error}")
                failed.append(title)
    results.figures["not_measured"] = failed
    write(results, tables, args.page)
    say("done" if not failed else f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def write(results: Results, tables: Mapping[str, Table], page: Path | None) -> None:
    """Print everything and keep it."""
    rows = target_rows(TARGETS, results)
    found = [(name, str(value)) for name, value in results.machine.items()]
    text = tables_text({"Targets": rows, **tables, "Machine": [("what", "which"), *found]})
    print(text)
    words = [row[-1] for row in rows]
    print(f"{words.count(REACHED)} targets reached, {words.count(MISSED)} missed")
    OUT.mkdir(exist_ok=True)
    (OUT / "bench.md").write_text(text, encoding="utf-8")
    (OUT / "bench.json").write_text(results.as_json(), encoding="utf-8")
    print(f"written to {OUT / 'bench.md'} and {OUT / 'bench.json'}")
    if page is not None:
        page.write_text(with_results(page.read_text("utf-8"), text), encoding="utf-8")


def raise_priority() -> str:
    """Run before others where that is allowed; says whether it is."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except PermissionError:
        return "normal: raising it takes root"
    return f"nice {NICENESS}"


def machine() -> dict[str, object]:
    """Return what the numbers were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    return {
        "processor": ", ".join(sorted(models)) or platform.machine(),
        "CPUs": os.cpu_count(),
        "kernel": platform.release(),
        "Python": platform.python_version(),
        "Go": go_programs.go_version(),
    }


def _clock() -> Callable[[str], None]:
    began_s = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {words}", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
