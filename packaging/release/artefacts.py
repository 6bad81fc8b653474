"""The list of what a release consists of. A new artefact is a new line in `artefacts`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import payload
from image import glibc

from release import manifests, sbom, wheelhouse


@dataclass(frozen=True, slots=True)
class Artefact:
    """One file of a release."""

    title: str
    target: str
    """The target of make that builds it, from those before."""
    name: str
    contents: Callable[[Path], Sequence[sbom.Json]]
    """Returns the components of the SBOM; its argument is the directory of all artefacts."""
    kind: str = "file"
    """CycloneDX's type of it."""
    purl_type: str = "generic"


def artefacts(version: str, machine: str) -> Sequence[Artefact]:
    """Return all artefacts of a version, in the order in which they are built."""
    single = f"nri-numamem-{version}-linux-{machine}"
    project = f"nri_numamem-{version}"
    house = f"nri-numamem-{version}-wheelhouse-linux-{machine}.tar.gz"
    image = f"nri-numamem-{version}-image-linux-{machine}.tar"

    chart, overlays = manifests.names(version).values()

    def of_file(folder: Path) -> Sequence[sbom.Json]:
        found: Sequence[sbom.Json] = sbom.as_component(folder / single)["components"]
        return found

    def with_file(folder: Path) -> Sequence[sbom.Json]:
        return [sbom.as_component(folder / single)]

    def with_glibc(folder: Path) -> Sequence[sbom.Json]:
        return [*with_file(folder), c_library(glibc.package(glibc.cache_root()))]

    def libraries(_folder: Path) -> Sequence[sbom.Json]:
        wheels = wheelhouse.cached(machine, wheelhouse.cache_root())
        return [sbom.of_wheel(wheel) for wheel in sorted(wheels.glob("*.whl"))]

    return (
        Artefact("single executable file", "dist", single, of_file, "application"),
        Artefact("Debian package", "deb", payload.deb_name(version, machine), with_file),
        Artefact("RPM package", "rpm", payload.rpm_name(version, machine), with_file),
        Artefact("container image", "image", image, with_glibc, "container"),
        Artefact("Helm chart", "manifests", chart, lambda _folder: []),
        Artefact("kustomize overlays", "manifests", overlays, lambda _folder: []),
        Artefact(
            "source distribution", "wheels", f"{project}.tar.gz", libraries, "library", "pypi"
        ),
        Artefact("wheel", "wheels", f"{project}-py3-none-any.whl", libraries, "library", "pypi"),
        Artefact("wheelhouse", "wheels", house, libraries),
    )


def targets(version: str, machine: str) -> Sequence[str]:
    """Return the targets of make, each once."""
    return list(dict.fromkeys(artefact.target for artefact in artefacts(version, machine)))


def c_library(package: Path) -> sbom.Json:
    """Return the component of Debian's package of glibc."""
    name, version, architecture = package.stem.split("_")
    version = version.replace("%3a", ":")
    purl = f"pkg:deb/debian/{name}@{sbom.quoted(version)}?arch={architecture}"
    expression = "LGPL-2.1-or-later"
    return sbom.component("glibc", version, license=expression, purl=purl, file=package)
