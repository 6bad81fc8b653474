"""``nri-numamem gather``: the archive, its list of contents, and what is printed."""

import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import State
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles as KernelFiles

CASES = Path(__file__).parent.parent / "cases" / "state"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    KernelFiles(tmp_path / "host", Machine((NumaNode(7, 8 << 30, cpus=CpuSet([0])),)))
    state = tmp_path / "host/var/lib/nri-numamem"
    state.mkdir(parents=True)
    (state / "nri_numamem_state").write_text("state")
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
    assert found["files/var/lib/nri-numamem/nri_numamem_state"] == "state"
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
        assert archive.getnames()[-1] == f"{path.name.removesuffix('.tar.gz')}/contents.txt"


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


def test_a_state_file_beside_those_of_other_programs(
    host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubelet = host / "var/lib/kubelet"
    kubelet.mkdir()
    (kubelet / "numamem_state").write_text("state")
    (kubelet / "kubeconfig").write_text("token: secret")
    path = tmp_path / "report"
    assert gather(host, "--state-file=/var/lib/kubelet/numamem_state", str(path)) == 0
    found = texts(path)
    assert "files/var/lib/kubelet/numamem_state" in found
    assert "secret" not in "".join(found.values())
    remark = "left out, not written by the plugin: kubeconfig"
    assert remark in found["contents.txt"]
    assert f"  /var/lib/kubelet: {remark}" in capsys.readouterr().out.splitlines()


def test_the_whole_archive_is_bounded(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nri_numamem.cli.gather.TOTAL_LIMIT_BYTES", 50_000)
    state = host / "var/lib/nri-numamem"
    for number in range(1, 6):
        (state / f"nri_numamem_state.corrupt-{number}").write_bytes(os.urandom(9_000))
    path = tmp_path / "report"
    assert gather(host, str(path)) == 0
    with tarfile.open(path) as archive:
        sizes = {Path(member.name).name: member.size for member in archive}
    assert sum(sizes.values()) < 60_000
    assert 0 < sum("corrupt" in name for name in sizes) < 5
    assert "nri_numamem_state" in sizes
    shown = capsys.readouterr().out
    assert ".corrupt-5: left out: the other files have " in shown


@pytest.mark.slow
def test_large_files_take_little_memory(host: Path, tmp_path: Path) -> None:
    """The files are sparse; a limit of the address space would end a process that reads them."""
    state = host / "var/lib/nri-numamem"
    names = ["nri_numamem_state", "history-0.log", "history-1.log", "plugin.json"]
    names += [f"nri_numamem_state.corrupt-{number}" for number in range(1, 6)]
    for name in names:
        with (state / name).open("wb") as file:
            file.truncate(1 << 30)
    with (host / "var/log/nri-numamem/nri-numamem.log").open("wb") as file:
        file.truncate(1 << 30)
    # Unlike ru_maxrss, VmHWM does not include what the process was before it ran this program.
    script = "import re,sys; from nri_numamem.cli.main import main; main(sys.argv[1:]); "
    script += "text = open('/proc/self/status').read(); "
    script += "print(re.search(r'VmHWM:\\s+(\\d+) kB', text)[1], file=sys.stderr)"
    command = [sys.executable, "-c", script, "gather", f"--root={host}", str(tmp_path / "report")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stderr) < 200_000, "KiB; some 90,000 were measured"
    assert (tmp_path / "report").stat().st_size < 1 << 20


def test_the_state_file_with_the_former_name(host: Path, tmp_path: Path) -> None:
    former = host / "var/lib/nri-numamem/memory_manager_state"
    former.write_bytes(snapshot(EngineState(State({}))))
    assert gather(host, str(tmp_path / "one")) == 0
    name = "files/var/lib/nri-numamem/memory_manager_state"
    assert texts(tmp_path / "one")[name] == former.read_text()
    former.write_text((CASES / "v1-one-node.json").read_text())  # the kubelet's
    assert gather(host, str(tmp_path / "two")) == 0
    found = texts(tmp_path / "two")
    assert name not in found
    remark = "left out, not written by the plugin: memory_manager_state"
    assert remark in found["contents.txt"]
