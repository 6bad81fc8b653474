"""``nri-numamem gather``: the archive, its list of contents, and what is printed."""

import json
import stat
import tarfile
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles as KernelFiles


@pytest.fixture
def host(tmp_path: Path) -> Path:
    KernelFiles(tmp_path / "host", Machine((NumaNode(7, 8 << 30, cpus=CpuSet([0])),)))
    state = tmp_path / "host/var/lib/nri-numamem"
    state.mkdir(parents=True)
    (state / "memory_manager_state").write_text("state")
    log = tmp_path / "host/var/log/nri-numamem/nri-numamem.log"
    log.parent.mkdir(parents=True)
    log.write_text('{"event": "admitted"}\n')
    return tmp_path / "host"


def gather(host: Path, *arguments: str) -> int:
    return main(["gather", "--root", str(host), *arguments])


def texts(path: Path) -> dict[str, str]:
    """Return name without the top folder -> text of all files in an archive."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
    return found


def test_the_archive(host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.tar.gz"
    assert gather(host, str(path)) == 0
    found = texts(path)
    assert found["files/var/lib/nri-numamem/memory_manager_state"] == "state"
    assert found["files/var/log/nri-numamem/nri-numamem.log"] == '{"event": "admitted"}\n'
    findings = {one["check"]: one for one in json.loads(found["doctor.json"])["findings"]}
    assert findings["numa"]["text"] == "one NUMA node with 8Gi"
    assert findings["state_file"]["verdict"] == "warn"  # the one below the root
    assert found["machine.yaml"].startswith("machine:\n  nodes:\n  - id: 7\n")
    assert "8Gi" in found["inspect.txt"]
    listed = [line.split()[0] for line in found["contents.txt"].splitlines()[2:]]
    assert set(found) - set(listed) == {"contents.txt"}
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{path} has:"
    assert "  state of the plugin: 1 file, 5B" in shown
    assert "  /etc/nri-numamem/config.yaml: does not exist" in shown
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_default_name(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert gather(host) == 0
    (path,) = tmp_path.glob("nri-numamem-*.tar.gz")
    with tarfile.open(path) as archive:
        assert archive.getnames()[0] == f"{path.name.removesuffix('.tar.gz')}/contents.txt"


def test_an_existing_file_is_kept(
    host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report"
    path.write_text("precious")
    assert gather(host, str(path)) == 2
    assert capsys.readouterr().err == f"nri-numamem: {path}: the file exists; name another one\n"
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_written(
    host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "report"
    assert gather(host, str(path)) == 2
    error = f"nri-numamem: {path}: No such file or directory; name another file\n"
    assert capsys.readouterr().err == error
