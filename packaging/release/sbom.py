"""Software bills of materials (SBOM) as JSON documents of CycloneDX 1.6.

Components are the format's own JSON objects. The same input gives the same bytes. The standard
library suffices, because `make dist` writes one too.
"""

import datetime as dt
import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from release.errors import ReleaseError

Json: TypeAlias = dict[str, Any]

# Of libraries whose metadata has no SPDX expression; their licence files say so.
_LICENSES = {
    "hyperframe": "MIT",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "protobuf": "BSD-3-Clause",
    "pyyaml": "MIT",
    "rich": "MIT",
}

# The same bytes get the same serial number.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "nri_numamem")


def component(
    name: str,
    version: str,
    *,
    license: str,  # noqa: A002 - the format's word
    purl: str,
    file: Path,
    kind: str = "library",
) -> Json:
    """Return a component; `license` is an SPDX expression, `file` what its hash is of.

    `purl` is a package URL and unique in a document.
    """
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": sha256_of(file)}],
        "licenses": [{"expression": license}],
        "purl": purl,
    }


def own(file: Path, version: str, kind: str = "application", purl_type: str = "generic") -> Json:
    """Return the component of an artefact of this project."""
    purl = f"pkg:{purl_type}/nri-numamem@{quoted(version)}?file_name={quoted(file.name)}"
    name = "nri-numamem"
    return component(name, version, license="Apache-2.0", purl=purl, file=file, kind=kind)


def of_wheel(wheel: Path) -> Json:
    """Return the component of a library's wheel. Raises ReleaseError without a known licence."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if re.fullmatch(r"[^/]+/METADATA", one))
        metadata = BytesHeaderParser().parsebytes(archive.read(name))
    return of_project(metadata["Name"], metadata["Version"], wheel, metadata["License-Expression"])


def of_project(name: str, version: str, file: Path, expression: str | None = None) -> Json:
    """Return the component of a library on a Python package index; `file` is its distribution.

    Raises ReleaseError if neither the argument nor this module has its licence.
    """
    normalized = re.sub(r"[-_.]+", "-", name).lower()
    found = expression or _LICENSES.get(normalized)
    if found is None:
        raise ReleaseError(f"{file.name}: its metadata has no licence; add it to _LICENSES")
    purl = f"pkg:pypi/{normalized}@{quoted(version)}?file_name={quoted(file.name)}"
    return component(normalized, version, license=found, purl=purl, file=file)


def document(artefact: Json, contents: Sequence[Json], made_s: int) -> Json:
    """Return the document of an artefact; `contents` can have components of their own."""
    whole = {**artefact, "components": list(contents)}
    digest = artefact["hashes"][0]["content"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": dt.datetime.fromtimestamp(made_s, dt.UTC).isoformat(),
            "component": artefact,
        },
        "components": list(contents),
        "dependencies": list(_dependencies(whole)),
    }


def write(file: Path, document: Mapping[str, Any]) -> Path:
    """Write the document of a file beside it; return its path."""
    path = path_of(file)
    path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="ascii")
    return path


def path_of(file: Path) -> Path:
    """Return where the document of a file is."""
    return file.with_name(f"{file.name}.cdx.json")


def as_component(file: Path) -> Json:
    """Return a file with its contents as a component, from the document beside it.

    Raises ReleaseError if the document is missing, or not of this file.
    """
    path = path_of(file)
    try:
        found = json.loads(path.read_text(encoding="ascii"))
        artefact: Json = found["metadata"]["component"]
        digests = [entry["content"] for entry in artefact["hashes"]]
    except (OSError, ValueError, KeyError) as error:
        raise ReleaseError(f"{path}: {error}; run: make dist") from error
    if digests != [sha256_of(file)]:
        raise ReleaseError(f"{path} is not of the present {file.name}; run: make dist")
    return {**artefact, "components": found["components"]}


def sha256_of(file: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def quoted(text: str) -> str:
    """Return a version or value of a package URL."""
    return quote(text, safe="")


def _dependencies(whole: Mapping[str, Any]) -> Iterator[Json]:
    """Yield what each component depends on: what is in it."""
    parts: Iterable[Json] = whole.get("components", ())
    yield {"ref": whole["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}
    for part in parts:
        yield from _dependencies(part)
