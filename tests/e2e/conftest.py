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
def reports(request: pytest.FixtureRequest, wheel: Path) -> dict[str, runs.SuiteReport]:
    """Boot the suites of the selected tests in parallel; return suite -> report."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    suites = sorted({str(item.callspec.params["suite"]) for item in items})
    runs.OUT.mkdir(parents=True, exist_ok=True)
    drive = runs.write_drive(wheel)
    with ThreadPoolExecutor(len(suites)) as pool:
        found = pool.map(lambda suite: runs.run(suite, drive), suites)
        reports = {report.suite: report for report in found}
    request.config.stash[_REPORTS] = reports
    return reports
