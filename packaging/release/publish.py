"""Makes a release of built artefacts: SBOMs, checksums, release notes and a table."""

from collections.abc import Sequence
from pathlib import Path

from release import checks, distributions, sbom
from release.artefacts import Artefact
from release.changelog import Section
from release.errors import ReleaseError

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
NOTES = "RELEASE_NOTES.md"


def publish(
    artefacts: Sequence[Artefact],
    directory: Path,
    version: str,
    section: Section,
    newest_source_s: float,
) -> str:
    """Write all files that belong to artefacts beside them; return a table of these.

    Raises ReleaseError if an artefact is missing or older than the sources.
    """
    problems = [
        problem
        for artefact in artefacts
        for problem in checks.of_artefact(artefact, directory, newest_source_s)
    ]
    if problems:
        raise ReleaseError("\n".join(problems))
    written = []
    for artefact in artefacts:
        path = directory / artefact.name
        contents = artefact.contents(directory)
        own = sbom.own(path, version, artefact.kind, artefact.purl_type)
        written += [path, sbom.write(path, sbom.document(own, contents, distributions.date_s()))]
    notes = directory / NOTES
    notes.write_text(f"# nri_numamem {version}\n\n{section.text}\n", encoding="utf-8")
    sums = "".join(f"{sbom.sha256_of(path)}  {path.name}\n" for path in [*written, notes])
    (directory / SUMS).write_text(sums, encoding="ascii")
    (directory / SIGNATURE).unlink(missing_ok=True)  # of other checksums
    return table(artefacts, directory)


def table(artefacts: Sequence[Artefact], directory: Path) -> str:
    """Return a line for each artefact, with its size."""
    width = max(len(artefact.title) for artefact in artefacts)
    lines = [
        f"{artefact.title:{width}}  {size_text(directory / artefact.name):>7}  {artefact.name}\n"
        for artefact in artefacts
    ]
    return "".join(lines)


def size_text(path: Path) -> str:
    """Return the size of a file in MB, or in kB if it is small."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def others(artefacts: Sequence[Artefact], directory: Path) -> Sequence[str]:
    """Return the names of files in a directory that belong to no artefact."""
    names = {artefact.name for artefact in artefacts}
    known = {*names, *(sbom.path_of(Path(name)).name for name in names), SUMS, SIGNATURE, NOTES}
    return sorted(path.name for path in directory.iterdir() if path.name not in known)
