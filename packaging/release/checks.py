"""What keeps a release from being made; each problem is one line with its remedy."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from single_file import debian
from single_file.commands import BuildError

from release import changelog, sbom, sources
from release.artefacts import Artefact
from release.errors import ReleaseError

RECORDED = ("config.yaml", "history-0.log", "nri_numamem_state", "plugin.json")
"""Files of each release in tests/releases, which later ones must read."""

_SHOWN = 5
_DEBIAN_SOURCE = re.compile(r"pkg:deb/debian/([^@]+)@([^?]+)\?arch=source")


def of_sources(root: Path, version: str, *, is_unreleased: bool) -> Iterator[str]:
    """Yield what is wrong with the sources; of an unreleased version less is demanded."""
    changed = sources.changed(root)
    if changed and not is_unreleased:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        yield f"uncommitted changes: {', '.join(changed[:_SHOWN])}{more}; commit or remove them"
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        changelog.notes(text, version, is_unreleased=is_unreleased)
    except ReleaseError as error:
        yield str(error)
    yield from _other_versions(root, version)
    folder = Path("tests/releases", version)
    missing = [name for name in RECORDED if not (root / folder / name).is_file()]
    if missing:
        yield f"{folder}: no {', '.join(missing)}; record this version, see docs/upgrade.md"


def of_upgrade(root: Path) -> Iterator[str]:
    """Yield whether an upgrade or a rollback fails, by the tests with the files of each release."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/releases"]
    if subprocess.run(command, cwd=root, check=False).returncode:
        yield "upgrade or rollback fails: see the output of tests/releases above"


def of_artefact(artefact: Artefact, directory: Path, newest_source_s: float) -> Iterator[str]:
    """Yield what is wrong with a built artefact."""
    path = directory / artefact.name
    if not path.is_file():
        yield f"{path} is missing; run: make {artefact.target}"
    elif path.stat().st_mtime < newest_source_s:
        yield f"{path} is older than the sources; run: make {artefact.target}"


def of_debian_sources(contents: Iterable[sbom.Json]) -> Iterator[str]:
    """Yield which source packages of Debian in an SBOM are not the newest by the mirror's lists.

    Raises ReleaseError if the lists cannot be read.
    """
    found = [_DEBIAN_SOURCE.fullmatch(part["purl"]) for part in contents]
    used = {one[1]: unquote(one[2]) for one in found if one}
    try:
        newest = debian.newest_versions(used)
        for package, version in used.items():
            if debian.newest_first({version, newest[package]})[0] != version:
                yield (
                    f"the single file has {package} {version}, and Debian has {newest[package]}; "
                    "run: make release DIST=--refresh, or accept it with RELEASE=--outdated"
                )
    except BuildError as error:
        raise ReleaseError(f"the newest versions of Debian are unknown: {error}") from error


def _other_versions(root: Path, version: str) -> Iterator[str]:
    """Yield places with another version than nri_numamem/version.py, from which all take it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {"pyproject.toml": project["version"]} if "version" in project else {}
    # Helm reads no other file.
    for chart in sorted((root / "packaging").glob("helm/*/Chart.yaml")):
        for key in ("version", "appVersion"):
            value = re.search(
                rf'^{key}: *"?([^\s"]+)', chart.read_text(encoding="utf-8"), re.MULTILINE
            )
            found[f"{chart.relative_to(root)}, {key}"] = value[1] if value else "none"
    folder = root / "packaging/kustomize"
    for name in ("base", "components/claims", "components/export"):
        file = folder / name / "daemonset.yaml"
        if file.exists():
            text = file.read_text(encoding="utf-8")
            image = re.search(r"image: \S+:(\S+)$", text, re.MULTILINE)
            found[f"{file.relative_to(root)}, image"] = image[1] if image else "none"
    for place, other in found.items():
        if other != version:
            yield f"{place}: {other}, but nri_numamem/version.py has {version}; change one of them"
