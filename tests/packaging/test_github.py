"""The workflows and issue forms in .github."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.release_builds import ROOT, needs_repository

GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))

pytestmark = needs_repository


def form(name: str) -> dict[str, Any]:
    """Return the fields of an issue form by their ids."""
    document = yaml.safe_load((GITHUB / f"ISSUE_TEMPLATE/{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(document)
    return {part["id"]: part for part in document["body"] if part["type"] != "markdown"}


def lint(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = (ROOT / "tests/packaging/lint-workflows", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_mistake_in_a_workflow_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{rum: make}]}}\n")
    found = lint(wrong)
    assert found.returncode == 1
    assert "step must run script" in found.stdout


def test_actions_are_pinned_by_commit() -> None:
    used = [
        name
        for path in WORKFLOWS
        for name in re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(), re.MULTILINE)
        if not name.startswith("./")
    ]
    assert used
    for name in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name), name


def test_ci_runs_what_a_developer_runs() -> None:
    ci = yaml.safe_load((GITHUB / "workflows/ci.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    assert {"push", "pull_request", "workflow_call"} == set(ci[True])
    assert ".ci/run" in [step.get("run") for step in ci["jobs"]["checks"]["steps"]]


def test_only_the_job_that_publishes_may_write() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        writing = [name for name, job in workflow["jobs"].items() if "permissions" in job]
        assert writing == (["publish"] if path.stem == "release" else [])


def test_the_release_has_the_names_of_the_artefacts() -> None:
    release = (GITHUB / "workflows/release.yml").read_text()
    names = (ROOT / "packaging/release/artefacts.py").read_text()
    assert 'f"nri-numamem-{version}-image-linux-{machine}.tar"' in names
    assert "dist/nri-numamem-$version-image-linux-x86_64.tar" in release
    assert 'f"nri-numamem-{version}.tgz"' in (ROOT / "packaging/release/manifests.py").read_text()
    assert "dist/nri-numamem-$version.tgz" in release


def test_a_bug_report_has_what_a_diagnosis_needs() -> None:
    bug = form("bug")
    assert "nri-numamem gather" in bug["gather"]["attributes"]["description"]
    assert "nri-numamem explain" in bug["explain"]["attributes"]["description"]
    assert bug["gather"]["validations"]["required"]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_commands_in_a_form_exist(name: str) -> None:
    from nri_numamem.cli.main import COMMANDS

    text = (GITHUB / f"ISSUE_TEMPLATE/{name}.yml").read_text()
    used = set(re.findall(r"`nri-numamem ([a-z]+)", text))
    assert used
    assert used <= set(COMMANDS)
    assert form(name)
