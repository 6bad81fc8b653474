"""What is in the single executable file, as components of its SBOM; licenses.py has the same."""

import re
from collections.abc import Sequence
from pathlib import Path

import claim_hook
from release import sbom

from single_file import debian, interpreter, licenses, openssl
from single_file.commands import BuildError

# Component -> Debian's source package, licence, vendor and product of its CPE name.
_SOURCE_PACKAGES = {
    "CPython": (interpreter.SOURCE_PACKAGE, "PSF-2.0", "python:python"),
    "OpenSSL": (openssl.SOURCE_PACKAGE, "Apache-2.0", "openssl:openssl"),
}

# Library -> package in the build root, the archive in it that is linked, and the licence.
_LINKED = {"libffi": ("libffi-dev", "libffi.a", "MIT"), "zlib": ("zlib1g-dev", "libz.a", "Zlib")}


def collect(built: interpreter.Interpreter, hook: Path) -> Sequence[sbom.Json]:
    """Return the components; `hook` is the hook program of claims.

    Raises BuildError if a source of theirs is missing.
    """
    found = [_source_package(built.downloads, title) for title in _SOURCE_PACKAGES]
    found.append(_protobuf(built.downloads))
    found += [_linked(name, built.root) for name in _LINKED]
    wheels = sorted(built.downloads.glob("*.whl"))
    inside = [one for one in wheels if one.name.split("-")[0] not in licenses.NOT_INSIDE]
    return [*found, *map(sbom.of_wheel, inside), _go(hook)]


def _source_package(downloads: Path, title: str) -> sbom.Json:
    """Return a component whose version is that of Debian, whose patches have security fixes."""
    package, expression, product = _SOURCE_PACKAGES[title]
    source = debian.source_in(downloads, package)
    version = debian.version_of(source)
    upstream = version.partition("-")[0]
    purl = f"pkg:deb/debian/{package}@{sbom.quoted(version)}?arch=source"
    entry = sbom.component(title, version, license=expression, purl=purl, file=source)
    return {**entry, "cpe": f"cpe:2.3:a:{product}:{upstream}:*:*:*:*:*:*:*"}


def _protobuf(downloads: Path) -> sbom.Json:
    (source,) = downloads.glob("protobuf-*.tar.gz")
    version = source.name.removeprefix("protobuf-").removesuffix(".tar.gz")
    return sbom.of_project("protobuf", version, source)


def _linked(name: str, root: Path) -> sbom.Json:
    """Return a library of the build root."""
    package, archive, expression = _LINKED[name]
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    paragraph = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*", status, re.MULTILINE)
    version = paragraph and re.search(r"^Version: (.+)$", paragraph[0], re.MULTILINE)
    if not version:
        raise BuildError(f"the build root has no package {package}")
    suite = f"distro={debian.ROOT_SUITE}"
    purl = f"pkg:deb/debian/{package}@{sbom.quoted(version[1])}?{suite}"
    (file,) = root.glob(f"usr/lib/*/{archive}")
    return sbom.component(name, version[1], license=expression, purl=purl, file=file)


def _go(hook: Path) -> sbom.Json:
    """Return Go's runtime and standard library, with the hash of the program that they are in.

    Scanners find their vulnerabilities by this name of the package.
    """
    version = claim_hook.go_version(hook)
    purl = f"pkg:golang/stdlib@{sbom.quoted(version)}"
    entry = sbom.component("Go", version, license="BSD-3-Clause", purl=purl, file=hook)
    return {**entry, "cpe": f"cpe:2.3:a:golang:go:{version}:*:*:*:*:*:*:*"}
