"""What keeps a release from being made."""

import os
from pathlib import Path

import pytest
from release import checks, sbom, sources
from release.artefacts import Artefact
from release.errors import ReleaseError
from single_file import debian
from single_file.commands import BuildError

PROJECT = "[project]\nname = 'x'\ndynamic = ['version']\n"
CHANGES = "# Changelog\n\n## 0.2.0 - 2026-03-04\n\n- second\n\n## Unreleased\n\n- new\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    for version in ("0.2.0", "0.3.0"):
        folder = tmp_path / "tests/releases" / version
        folder.mkdir(parents=True)
        for name in checks.RECORDED:
            (folder / name).touch()
    monkeypatch.setattr(sources, "changed", lambda _root: [])
    return tmp_path


def problems(root: Path, version: str = "0.2.0", *, is_unreleased: bool = False) -> list[str]:
    return list(checks.of_sources(root, version, is_unreleased=is_unreleased))


def test_a_clean_tree_with_a_dated_section_can_be_released(root: Path) -> None:
    assert problems(root) == []


def test_uncommitted_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "changed", lambda _root: list("abcdefg"))
    text = "uncommitted changes: a, b, c, d, e and 2 more; commit or remove them"
    assert problems(root) == [text]
    assert problems(root, is_unreleased=True) == []


def test_a_changelog_without_the_section(root: Path) -> None:
    (problem,) = problems(root, "0.3.0")
    assert problem.startswith("CHANGELOG.md: no section 0.3.0")
    assert problems(root, "0.3.0", is_unreleased=True) == []


def test_another_version_elsewhere(root: Path) -> None:
    (root / "pyproject.toml").write_text(f"{PROJECT}version = '0.1.9'\n")
    chart = root / "packaging/helm/nri-numamem/Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text('apiVersion: v2\nversion: 0.2.0\nappVersion: "0.1.0"\n')
    base = root / "packaging/kustomize/base/daemonset.yaml"
    base.parent.mkdir(parents=True)
    base.write_text("      image: localhost/nri-numamem:0.1.1\n")
    component = root / "packaging/kustomize/components/export/daemonset.yaml"
    component.parent.mkdir(parents=True)
    component.write_text("    args: []\n")
    hook = root / "packaging/kustomize/components/claims/daemonset.yaml"
    hook.parent.mkdir()
    hook.write_text("image: localhost/nri-numamem:0.1.2\n")
    end = "but nri_numamem/version.py has 0.2.0; change one of them"
    assert problems(root, is_unreleased=True) == [
        f"pyproject.toml: 0.1.9, {end}",
        f"packaging/helm/nri-numamem/Chart.yaml, appVersion: 0.1.0, {end}",
        f"packaging/kustomize/base/daemonset.yaml, image: 0.1.1, {end}",
        f"packaging/kustomize/components/claims/daemonset.yaml, image: 0.1.2, {end}",
        f"packaging/kustomize/components/export/daemonset.yaml, image: none, {end}",
    ]
    hook.unlink()
    component.write_text("    image: localhost/nri-numamem:0.2.0\n")
    chart.write_text("appVersion: 0.2.0\n")
    base.write_text("image: localhost/nri-numamem:0.2.0\n")
    assert problems(root)[1:] == [f"packaging/helm/nri-numamem/Chart.yaml, version: none, {end}"]


def test_a_version_that_was_not_recorded(root: Path) -> None:
    (root / "tests/releases/0.2.0/plugin.json").unlink()
    text = "tests/releases/0.2.0: no plugin.json; record this version, see docs/upgrade.md"
    assert problems(root) == [text]


@pytest.mark.parametrize("passes", [True, False])
def test_upgrade_and_rollback_are_tested(tmp_path: Path, *, passes: bool) -> None:
    folder = tmp_path / "tests/releases"
    folder.mkdir(parents=True)
    (folder / "test_upgrade.py").write_text(f"def test_upgrade():\n    assert {passes}\n")
    assert bool(list(checks.of_upgrade(tmp_path))) is not passes


def contents(**versions: str) -> list[sbom.Json]:
    """Return the components of an SBOM, of source packages of Debian and of a library."""
    sources = [
        {"purl": f"pkg:deb/debian/{package}@{sbom.quoted(version)}?arch=source"}
        for package, version in versions.items()
    ]
    return [*sources, {"purl": "pkg:pypi/h2@4.3.0?file_name=h2.whl"}]


def test_an_openssl_older_than_the_newest_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = {"openssl": "3.5.10-1~deb13u2", "python3.13": "3.13.9-1"}
    read: list[dict[str, str]] = []

    def newest_versions(packages: dict[str, str]) -> dict[str, str]:
        read.append({package: newest[package] for package in packages})
        return read[-1]

    monkeypatch.setattr(debian, "newest_versions", newest_versions)
    assert list(checks.of_debian_sources(contents(**newest))) == []
    assert read == [newest]
    older = {**newest, "openssl": "3.5.9-1~deb13u1"}
    assert list(checks.of_debian_sources(contents(**older))) == [
        (
            "the single file has openssl 3.5.9-1~deb13u1, and Debian has 3.5.10-1~deb13u2; run: "
            "make release DIST=--refresh, or accept it with RELEASE=--outdated"
        )
    ]
    older["openssl"] = "3.5.10-1~deb13u3"  # the mirror is behind
    assert list(checks.of_debian_sources(contents(**older))) == []


def test_lists_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> dict[str, str]:
        raise BuildError("apt has no lists")

    monkeypatch.setattr(debian, "newest_versions", fail)
    with pytest.raises(ReleaseError, match="of Debian are unknown: apt has no lists"):
        list(checks.of_debian_sources(contents(openssl="1-1")))


def test_an_artefact_must_be_newer_than_the_sources(tmp_path: Path) -> None:
    artefact = Artefact("file", "dist", "name", lambda _folder: [])
    path = tmp_path / "name"
    assert list(checks.of_artefact(artefact, tmp_path, 1000)) == [
        f"{path} is missing; run: make dist"
    ]
    path.touch()
    os.utime(path, (999, 999))
    assert list(checks.of_artefact(artefact, tmp_path, 1000)) == [
        f"{path} is older than the sources; run: make dist"
    ]
    assert list(checks.of_artefact(artefact, tmp_path, 999)) == []
