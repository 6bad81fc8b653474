"""The archives of the Helm chart and of the kustomize overlays."""

import re
import tarfile
from pathlib import Path

import pytest
from release import manifests, sources

from nri_numamem.version import VERSION
from tests.packaging import manifests as tools
from tests.packaging.release_builds import needs_repository

pytestmark = needs_repository


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    built = manifests.build(tmp_path_factory.mktemp("manifests"), VERSION)
    return {path.name: path for path in built}


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        files = {one.name: opened.extractfile(one) for one in opened if one.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_the_chart_has_files_instead_of_links(archives: dict[str, Path]) -> None:
    found = contents(archives[f"nri-numamem-{VERSION}.tgz"])
    tracked = {name for name in sources.tracked() if name.startswith("packaging/helm/")}
    assert {f"packaging/helm/{name}" for name in found} == tracked
    dashboard = (sources.ROOT / "packaging/grafana/nri-numamem.json").read_bytes()
    assert found["nri-numamem/files/dashboard.json"] == dashboard
    assert re.search(rb"^version: (.*)$", found["nri-numamem/Chart.yaml"], re.MULTILINE)


def test_the_overlays_are_complete(archives: dict[str, Path]) -> None:
    found = contents(archives[f"nri-numamem-{VERSION}-kustomize.tar.gz"])
    tracked = {name for name in sources.tracked() if name.startswith("packaging/kustomize/")}
    assert {f"packaging/{name}" for name in found} == tracked


def test_the_same_sources_give_the_same_bytes(archives: dict[str, Path], tmp_path: Path) -> None:
    for again in manifests.build(tmp_path, VERSION):
        assert again.read_bytes() == archives[again.name].read_bytes()


@tools.needs_tools
def test_the_archives_render_as_the_sources(archives: dict[str, Path], tmp_path: Path) -> None:
    command = tools.helm()
    command[command.index(str(tools.CHART))] = str(archives[f"nri-numamem-{VERSION}.tgz"])
    assert tools.output_of("helm", *command) == tools.render_chart()
    with tarfile.open(archives[f"nri-numamem-{VERSION}-kustomize.tar.gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    overlay = str(tmp_path / "kustomize/overlays/crio")
    assert tools.output_of("kustomize", "build", overlay) == tools.render_overlay("crio")
