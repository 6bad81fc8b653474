"""Boot the suites of the selected tests in parallel, once per session."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import runs
from tests.e2e.guest import checks
from tests.packaging import deb_packages, single_file_program

WHEEL_VARIABLE = "NRI_NUMAMEM_E2E_WHEEL"
_REPORTS = pytest.StashKey[dict[str, runs.SuiteReport]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Print the tested versions and the durations."""
    for report in config.stash.get(_REPORTS, {}).values():
        terminalreporter.section(f"e2e {report.suite}")
        for line in report.summary:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def wheel() -> Path:
    """Return the wheel to test: the one in the environment variable, or a new one."""
    named = os.environ.get(WHEEL_VARIABLE)
    if named:
        return Path(named).resolve(strict=True)
    folder = runs.OUT / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    # setuptools would include files of an earlier build.
    shutil.rmtree(runs.ROOT / "build" / "lib", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(runs.ROOT)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def artefacts(wheel: Path) -> dict[str, Path]:
    """Return name on the drive -> file: wheel, single file, and two versions of the package."""
    if single_file_program.build_problem(single_file_program.PROGRAM):
        command = ["make", "dist", "DIST=--quick"]
        subprocess.run(command, cwd=runs.ROOT, check=True, stdin=subprocess.DEVNULL)
    folder = runs.OUT / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    old, new = deb_packages.build_two(single_file_program.PROGRAM, folder)
    return {
        wheel.name: wheel,
        "nri-numamem": single_file_program.PROGRAM,
        old.name: old,
        new.name: new,
    }


@pytest.fixture(scope="session")
def reports(
    request: pytest.FixtureRequest, artefacts: dict[str, Path]
) -> dict[str, runs.SuiteReport]:
    """Boot the suites of the selected tests in parallel; return suite -> report.

    The guests run the phases of the selected tests, and all phases if no test of one is selected.
    """
    selected = [
        item.callspec.params for item in request.session.items if isinstance(item, pytest.Function)
    ]
    suites = sorted({str(parameters["suite"]) for parameters in selected})
    phases = {str(parameters["phase"]) for parameters in selected if "phase" in parameters}
    runs.OUT.mkdir(parents=True, exist_ok=True)
    drive = runs.write_drive(artefacts, phases or [phase.name for phase in checks.PHASES])
    with ThreadPoolExecutor(len(suites)) as pool:
        found = pool.map(lambda suite: runs.run(suite, drive), suites)
        reports = {report.suite: report for report in found}
    request.config.stash[_REPORTS] = reports
    return reports
