"""The Helm chart and the kustomize overlays, as archives. The same sources give the same bytes."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from release import distributions, sources


def names(version: str) -> dict[str, str]:
    """Return folder below packaging -> name of its archive; a chart's name is Helm's rule."""
    return {
        "helm/nri-numamem": f"nri-numamem-{version}.tgz",
        "kustomize": f"nri-numamem-{version}-kustomize.tar.gz",
    }


def build(directory: Path, version: str) -> Sequence[Path]:
    """Write both archives into a directory; return their paths. Raises ReleaseError."""
    directory.mkdir(parents=True, exist_ok=True)
    built = []
    for folder, name in names(version).items():
        with tempfile.TemporaryDirectory() as text:
            work = Path(text)
            sources.copy(work / "sources", folder=f"packaging/{folder}/")
            root = work / "root"
            root.mkdir()
            # A chart's files are in a folder of its name.
            top = root / folder.rpartition("/")[2]
            (work / "sources/packaging" / folder).rename(top)
            archive = directory / name
            distributions.write_archive(root, archive)
            built.append(archive)
    return built
