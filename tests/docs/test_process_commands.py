"""Documented command lines that find or signal processes, tried beside processes of the program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documented_commands import ROOT, documented_commands
from tests.docs.process_commands import EVENTS

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Without it the commands would find processes of other tests."""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _tools() -> None:
    for program in ("pgrep", "pkill", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this process may not create namespaces")


def run_in_namespace(*command: str) -> str:
    """Return the output of a command in a namespace of process ids."""
    done = subprocess.run(
        [*NAMESPACE, *command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("mode", ["service", "launched"])
def test_documented_signals_reach_the_plugin_only(tmp_path: Path, mode: str) -> None:
    commands = documented_commands(r"\bpkill\b|^kill\b.*pgrep")
    assert len(commands) == 3
    # Each has its effect once, also if the signal goes to every process of the program.
    everywhere = [f"pkill -{name} numamem" for name in ("USR1", "USR2", "HUP")]
    program = (sys.executable, "-m", "tests.docs.process_commands", str(tmp_path), mode)
    found = json.loads(run_in_namespace(*program, *commands, *everywhere))
    assert found["name"] == "nri-numamem"
    assert found["ended"] == ["status", "simulate"]  # by the signal to all of them
    assert found["records"] == dict.fromkeys(EVENTS.values(), 2)


def test_documented_searches_find_one_process(tmp_path: Path) -> None:
    (example,) = documented_commands(r"\$\(pgrep")
    found = re.search(r"\$\((pgrep .* (\S+))\)", example)
    assert found
    search, name = found.groups()
    lines = [f"cp $(command -v sleep) {tmp_path}/{part}{name}" for part in ("old-", "")]
    lines += [f"{tmp_path}/old-{name} 60 &", f"{tmp_path}/{name} 60 & echo $!; sleep 0.2; {search}"]
    expected, *pids = run_in_namespace("sh", "-c", "\n".join(lines)).split()
    assert pids == [expected]
