"""packaging/requirements.txt agrees with constraints.txt, and how it is made."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.load_module import load_module

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.fixture
def program() -> ModuleType:
    return load_module(ROOT / "packaging" / "hash_requirements.py")


@pytest.fixture
def text(program: ModuleType) -> str:
    found: str = program.FILE.read_text()
    return found


def needed(names: list[str]) -> set[str]:
    """Return the projects of requirements, with those that they need on Linux, for any Python."""
    found: set[str] = set()
    while names:
        requirement = Requirement(names.pop())
        marker = requirement.marker
        variables = [{"python_version": python, "extra": ""} for python in PYTHONS]
        if marker is None or any(marker.evaluate(each) for each in variables):
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if name not in found:
                found.add(name)
                names += requires(requirement.name) or []
    return found


def test_the_file_has_what_an_installation_needs(program: ModuleType, text: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    given = project["project"]["dependencies"] + project["build-system"]["requires"]
    lines = {line.partition(" ")[0] for line in text.splitlines() if re.match(r"\w", line)}
    versions = program.pinned_versions(CONSTRAINTS)
    assert lines == {f"{name}=={versions[name]}" for name in needed(list(given))}


def test_each_requirement_has_hashes_and_the_file_names_no_host(text: str) -> None:
    entries = re.findall(
        r"^[\w.-]+==[\w.]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n", text, re.MULTILINE
    )
    comments = re.findall(r"^#.*\n", text, re.MULTILINE)
    assert "".join([*comments, *entries]) == text
    assert "//" not in text


def test_the_page_installs_no_other_files() -> None:
    page = (ROOT / "docs/install.md").read_text().partition("## With pip")[2]
    commands = re.findall(r"^\S+/pip install (.+)$", page, re.MULTILINE)
    assert commands[:2] == [
        "--require-hashes -r packaging/requirements.txt",
        "--no-deps --no-build-isolation .",
    ]


PAGE = {
    "files": [
        {"filename": "Some_Name-1.2.0.tar.gz", "hashes": {"sha256": "b" * 64}},
        {"filename": "some.name-1.2.0-py3-none-any.whl", "hashes": {"sha256": "a" * 64}},
        {"filename": "some_name-1.2.0.post1-py3-none-any.whl", "hashes": {"sha256": "c" * 64}},
        {"filename": "some_name-1.2.0-py3.egg", "hashes": {"sha256": "d" * 64}},
        {"filename": "some_name_more-1.2.0.tar.gz", "hashes": {"sha256": "e" * 64}},
    ]
}


def test_the_files_of_a_version(program: ModuleType) -> None:
    assert program.hashes_of(PAGE, "some-name", "1.2.0") == ["a" * 64, "b" * 64]
    with pytest.raises(ValueError, match=r"no files of some-name 1\.3"):
        program.hashes_of(PAGE, "some-name", "1.3")


def test_the_program_writes_the_file(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"install": [{"metadata": {"name": name}} for name in ("nri_numamem", "PyYAML")]}
    commands: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[bytes]:  # noqa: ANN401
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps(report).encode())

    def fetch(url: str) -> dict[str, Any]:
        name = url.rstrip("/").rpartition("/")[2]
        version = program.pinned_versions(CONSTRAINTS)[name]
        return {"files": [{"filename": f"{name}-{version}.tar.gz", "hashes": {"sha256": name}}]}

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(program, "_fetch", fetch)
    monkeypatch.setattr(program, "FILE", tmp_path / "requirements.txt")
    monkeypatch.setattr(sys, "argv", ["hash_requirements.py", "--index-url", "file:///index/"])
    program.main()
    entries = [line for line in program.FILE.read_text().splitlines() if line[0] != "#"]
    assert [line.strip(" \\") for line in entries if "hash" in line] == [
        "--hash=sha256:pyyaml",
        "--hash=sha256:setuptools",
    ]
    assert "pip" in commands[0]


def test_a_page_of_the_index_is_json(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "page").write_text(json.dumps(PAGE))
    assert program._fetch((tmp_path / "page").as_uri()) == PAGE
