"""Build the benchmark's Go programs: NRI's runtime side, and the plugins to compare with.

Each NRI version has a module with pinned dependencies and four programs, `runtime`, `constant`,
`placing` and `admissions`; each main.go describes its program.
"""

import shutil
import subprocess
from pathlib import Path

from tests.conformance.go_runtime import go_program, notify_source, run_in

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("go")
OUT = ROOT / "build" / "bench" / "go"
PROGRAMS = ("runtime", "constant", "placing", "admissions")
VERSIONS = ("nri-0.12.2", "nri-0.8.0")


def build(version: str) -> Path:
    """Build the programs of a version such as "nri-0.12.2" and return their folder.

    Programs newer than their sources are not built again. Raises RuntimeError with Go's output, or
    when Go is missing.
    """
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing; run tests/conformance/install-tools")
    module = SOURCE / "versions" / version
    notify = notify_source(version)
    sources = [*SOURCE.glob("*/*.go"), module / "go.mod", module / "go.sum", notify]
    folder = OUT / version
    programs = folder / "bin"
    newest = max(source.stat().st_mtime for source in sources)
    if all(_is_newer(programs / name, newest) for name in PROGRAMS):
        return programs
    shutil.rmtree(folder, ignore_errors=True)
    for source in sources:
        if source == notify:
            copy = folder / "runtime" / source.name
        else:
            copy = folder / source.relative_to(module if source.parent == module else SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    options = ("-mod=readonly", "-buildvcs=false", "-trimpath")
    run_in(folder, go, "test", *options, "./enumeration")
    run_in(folder, go, "build", *options, "-o", "bin/", *(f"./{name}" for name in PROGRAMS))
    return programs


def go_version() -> str:
    """Return the version of the Go compiler, "none" without one."""
    go = go_program()
    if go is None:
        return "none"
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("go")


def _is_newer(program: Path, time: float) -> bool:
    return program.exists() and program.stat().st_mtime > time
