"""What is in the single executable file, as components of its SBOM; licenses.py has the same."""

import re
from collections.abc import Sequence
from pathlib import Path

from release import sbom

from single_file import debian, licenses
from single_file.commands import BuildError
from single_file.interpreter import Interpreter

# Library -> package in the build root, the archive in it that is linked, and the licence.
_LINKED = {"libffi": ("libffi-dev", "libffi.a", "MIT"), "zlib": ("zlib1g-dev", "libz.a", "Zlib")}


def collect(interpreter: Interpreter) -> Sequence[sbom.Json]:
    """Return the components. Raises BuildError if a source of theirs is missing."""
    found = [_cpython(interpreter.downloads), _protobuf(interpreter.downloads)]
    found += [_linked(name, interpreter.root) for name in _LINKED]
    wheels = sorted(interpreter.downloads.glob("*.whl"))
    inside = [one for one in wheels if one.name.split("-")[0] not in licenses.NOT_INSIDE]
    return [*found, *map(sbom.of_wheel, inside)]


def _cpython(downloads: Path) -> sbom.Json:
    """Return CPython; its version is that of Debian, whose patches have security fixes."""
    (source,) = downloads.glob(f"{debian.SOURCE_PACKAGE}_*.dsc")
    version = source.stem.partition("_")[2]
    upstream = version.partition("-")[0]
    purl = f"pkg:deb/debian/{debian.SOURCE_PACKAGE}@{sbom.quoted(version)}?arch=source"
    entry = sbom.component("CPython", version, license="PSF-2.0", purl=purl, file=source)
    return {**entry, "cpe": f"cpe:2.3:a:python:python:{upstream}:*:*:*:*:*:*:*"}


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
