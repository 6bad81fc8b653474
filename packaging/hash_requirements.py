"""Write packaging/requirements.txt: what an installation needs, with versions and hashes.

`pip install --require-hashes -r packaging/requirements.txt` accepts no other files than those that
were on the package index when this program ran. The versions are those of constraints.txt. Besides
the run-time dependencies the file has the build requirement of pyproject.toml, because pip would
fetch it without a hash.

Usage, after a change of constraints.txt: hash_requirements.py --index-url URL, where URL is the
index that pip uses (its Simple API: PEP 503 and PEP 691).
"""

import argparse
import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "packaging" / "requirements.txt"

_HEAD = """\
# What an installation of nri_numamem needs: run-time dependencies, and what builds the package.
# Made by packaging/hash_requirements.py from constraints.txt; do not edit.
"""
_JSON = "application/vnd.pypi.simple.v1+json"
_TIMEOUT_S = 60


def normalized(name: str) -> str:
    """Return a project's name as an index spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_versions(text: str) -> dict[str, str]:
    """Return normalized name -> version of each line NAME==VERSION."""
    lines = (line.partition("==") for line in text.split("\n"))
    return {normalized(name.strip()): version.strip() for name, equals, version in lines if equals}


def resolved_names() -> set[str]:
    """Return the run-time dependencies that pip chooses for this interpreter, with theirs."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--report", "-", "--constraint", str(ROOT / "constraints.txt"), str(ROOT)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603 - pip
    names = {normalized(entry["metadata"]["name"]) for entry in report["install"]}
    return names - {normalized(_project()["project"]["name"])}


def build_names() -> set[str]:
    """Return the projects that build the package."""
    found = (re.match(r"[\w.-]+", text) for text in _project()["build-system"]["requires"])
    return {normalized(name[0]) for name in found if name}


def hashes_of(page: Mapping[str, Any], name: str, version: str) -> list[str]:
    """Return the SHA-256 digests of a version's wheels and source archives, sorted.

    `page` is the project's page of the index. Raises ValueError if the version has no files.
    """
    # A project's name is spelled in several ways in file names.
    spelled = normalized(name).replace("-", "[-_.]+")
    of_version = re.compile(rf"{spelled}-{re.escape(version)}(-.*\.whl|\.tar\.gz)", re.IGNORECASE)
    kept = [file for file in page["files"] if of_version.fullmatch(file["filename"])]
    if not kept:
        raise ValueError(f"the index has no files of {name} {version}")
    return sorted({file["hashes"]["sha256"] for file in kept})


def render(requirements: Iterable[tuple[str, str, list[str]]]) -> str:
    """Return the file's text for (name, version, hashes)."""
    parts = [_HEAD]
    for name, version, hashes in sorted(requirements):
        lines = [f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in hashes)]
        parts.append(" \\\n".join(lines) + "\n")
    return "".join(parts)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--index-url", required=True, help="the index that pip uses")
    index_url = parser.parse_args().index_url.rstrip("/")
    versions = pinned_versions((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    found = []
    for name in resolved_names() | build_names():
        page = _fetch(f"{index_url}/{name}/")
        found.append((name, versions[name], hashes_of(page, name, versions[name])))
    FILE.write_text(render(found), encoding="utf-8")


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _fetch(url: str) -> Mapping[str, Any]:
    request = urllib.request.Request(url, headers={"Accept": _JSON})  # noqa: S310 - from the user
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
        page: Mapping[str, Any] = json.load(reply)
        return page


if __name__ == "__main__":
    main()
