"""The least versions of dependencies, which an installation without pinned versions may get."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

# Dependency -> the last version with a known vulnerability. protobuf's depends on its parser;
# nri.protobuf_version warns of it.
VULNERABLE = {
    "h2": ("4.2.0", "CVE-2025-57804"),
    "PyYAML": ("5.3.1", "CVE-2020-14343"),
    "setuptools": ("78.1.0", "CVE-2025-47273"),
}


@pytest.mark.parametrize("name", VULNERABLE)
def test_no_version_with_a_known_vulnerability_is_accepted(name: str) -> None:
    document = tomllib.loads(PYPROJECT.read_text())
    lines = (*document["build-system"]["requires"], *document["project"]["dependencies"])
    (requirement,) = (one for one in map(Requirement, lines) if one.name == name)
    version, cve = VULNERABLE[name]
    assert not requirement.specifier.contains(version), cve
