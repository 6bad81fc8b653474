"""Memory policies: the output of an OCI runtime's command `features`, and what a kernel lacks."""

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from nri_numamem.host.memory_policies import (
    WEIGHTS,
    FeaturesError,
    find_program,
    missing_modes,
    read_policy_modes,
)
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import PolicyMode


def program(directory: Path, script: str) -> Path:
    path = directory / "runc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def printing(directory: Path, document: object) -> Path:
    (directory / "features.json").write_text(json.dumps(document))
    command = f'test "$*" = features && cat {directory}/features.json'
    return program(directory, command)


def test_modes_are_read_from_the_features(tmp_path: Path) -> None:
    policy = {"modes": ["MPOL_BIND", "MPOL_LOCAL", 7], "flags": ["MPOL_F_STATIC_NODES"]}
    made = printing(tmp_path, {"ociVersionMin": "1.0.0", "linux": {"memoryPolicy": policy}})
    assert read_policy_modes(made) == {"MPOL_BIND", "MPOL_LOCAL"}


@pytest.mark.parametrize("document", [{}, {"linux": {}}, {"linux": {"memoryPolicy": {}}}, [1]])
def test_an_old_program_has_no_modes(tmp_path: Path, document: object) -> None:
    assert read_policy_modes(printing(tmp_path, document)) == frozenset()


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("exit 3", "runc features exits with status 3"),
        ("echo features", "runc features prints no JSON"),
        ("printf '%099999d' 0 | tr 0 [", "runc features prints no JSON"),
        ("printf '\\377'", "runc features prints no JSON"),
        ("exec sleep 600", r"runc features takes more than 0\.2 s"),
    ],
)
def test_errors(tmp_path: Path, script: str, text: str) -> None:
    timeout_s = 0.2 if "sleep" in script else 60.0
    with pytest.raises(FeaturesError, match=text):
        read_policy_modes(program(tmp_path, script), timeout_s)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(FeaturesError, match="runc: No such file or directory"):
        read_policy_modes(tmp_path / "runc")


def test_the_first_executable_is_found(tmp_path: Path) -> None:
    directories = tuple(str(tmp_path / name) for name in "abcd")
    assert find_program("runc", directories) is None
    for directory in directories[1:]:
        Path(directory).mkdir()
        program(Path(directory), "")
    (tmp_path / "b/runc").chmod(0o644)
    assert find_program("runc", directories) == tmp_path / "c/runc"


@pytest.mark.parametrize(("number", "is_shortage"), [(errno.EAGAIN, True), (errno.EACCES, False)])
def test_a_program_that_cannot_be_started_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, is_shortage: bool
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(FeaturesError) as caught:
        read_policy_modes(tmp_path / "runc")
    assert caught.value.is_shortage is is_shortage


@pytest.mark.parametrize(
    ("release", "lacks_many"),
    [
        ("6.18.1\n", False),
        ("5.15.0-100-generic\n", False),
        ("5.14.0-570.el9.x86_64\n", True),
        ("4.18.0\n", True),
        ("unknown", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("has_weights", [True, False])
def test_missing_modes(
    tmp_path: Path, release: str | None, has_weights: bool, lacks_many: bool
) -> None:
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", tmp_path)
    if has_weights:
        (roots.sysfs / WEIGHTS).mkdir(parents=True)
    if release is not None:
        (roots.proc / "sys/kernel").mkdir(parents=True)
        (roots.proc / "sys/kernel/osrelease").write_text(release)
    expected = {PolicyMode.PREFERRED_MANY} if lacks_many else set()
    if not has_weights:
        expected.add(PolicyMode.WEIGHTED_INTERLEAVE)
    assert missing_modes(roots) == expected
