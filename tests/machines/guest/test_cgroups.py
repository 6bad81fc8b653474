"""Cgroups of containers: their processes, of which some end meanwhile."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.machines.guest import cgroups


def test_processes_that_have_ended_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    with subprocess.Popen(["true"]) as ended:
        pass
    directory = tmp_path / "kubepods" / "pod1" / "c1"
    directory.mkdir(parents=True)
    (directory / "cgroup.procs").write_text(f"{os.getpid()}\n{ended.pid}\n")
    found = cgroups.processes("/kubepods/pod1", "c1")
    assert found.keys() == {os.getpid()}
    assert found[os.getpid()] > 0
