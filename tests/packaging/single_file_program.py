"""The single executable file that `make dist` built.

Tests of it are skipped where it is missing, and where it is older than the sources of the plugin.
In CI, which sets the variable CI, they fail there.

NUMAMEM_SINGLE_FILE names another file than that of dist/, and NUMAMEM_SINGLE_FILE_TWIN its twin,
which runs its first argument as Python code.
"""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from nri_numamem.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
_NAME = f"nri-numamem-{VERSION}-linux-{os.uname().machine}"

PROGRAM = Path(os.environ.get("NUMAMEM_SINGLE_FILE") or ROOT / "dist" / _NAME)
TWIN = Path(os.environ.get("NUMAMEM_SINGLE_FILE_TWIN") or ROOT / "build" / "single-file-twin")

OLDEST_GLIBC = (2, 17)  # RHEL 7; RHEL 8 has 2.28


@cache
def build_problem(built: Path) -> str:
    """Return why a file has to be built before it can be tested; "" if it is up to date."""
    sources = (ROOT / "nri_numamem").rglob("*.py")
    newest_s = max(source.stat().st_mtime for source in sources)
    if built.exists() and built.stat().st_mtime >= newest_s:
        return ""
    return f"{built} is missing or older than the sources: make dist"


def check_builds(item: pytest.Item) -> None:
    """Skip a test, or let it fail in CI, if a file of its marks `needs_build` is not up to date."""
    for mark in item.iter_markers("needs_build"):
        (built,) = mark.args
        problem = build_problem(built)
        if problem and os.environ.get("CI"):
            pytest.fail(problem, pytrace=False)
        if problem:
            pytest.skip(problem)


needs_program = pytest.mark.needs_build(PROGRAM)
needs_twin = pytest.mark.needs_build(TWIN)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need the rights of root")

# Programs that this script starts see its mounts, and no other program does.
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")


def run(
    *command: str | Path, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with an empty environment, or with the given one."""
    return subprocess.run(
        [os.fspath(word) for word in command],
        env=environment or {},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def run_with_mounts(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script with mounts of its own; $1 and following are the arguments."""
    return run(*OWN_MOUNTS, script, "sh", *arguments, environment={"PATH": os.environ["PATH"]})


def output_of(command: Sequence[str | Path]) -> str:
    """Return what a command prints; it must succeed."""
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout
