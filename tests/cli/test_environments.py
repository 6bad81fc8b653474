"""Each command that prints for people, as screens of 80 and 120 columns, and in other environments.

The screens are files in tests/cli/screens; `UPDATE_SCREENS=1 pytest tests/cli/test_environments.py`
writes them. Commands that show what a plugin did have screens of their own (tests/cli/status,
tests/cli/explain and test_reset).
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nri_numamem.cli.main import COMMANDS, main
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.cli.doctor.host_files import HostFiles
from tests.cli.screen_files import check_screen
from tests.host_files import HostFiles as KernelFiles

SCREENS = Path(__file__).parent / "screens"
GI = 1 << 30

MACHINE = """\
machine:
  nodes:
  - {id: 0, memory: 64Gi, hugepages: {1Gi: 8}, cpus: 0-15, distances: {1: 21}}
  - {id: 1, memory: 64Gi, hugepages: {1Gi: 8}, cpus: 16-31, distances: {0: 21}}
"""
SCENARIO = f"""\
{MACHINE}
pods:
- metadata: {{name: postgres-0, namespace: db, uid: p0}}
  spec: {{containers: [{{name: postgres, resources: {{limits: {{cpu: 4, memory: 40Gi}}}}}}]}}
- metadata: {{name: upf-7c, namespace: telco, uid: u7}}
  spec:
    containers:
    - {{name: dpdk, resources: {{limits: {{cpu: 8, memory: 24Gi, hugepages-1Gi: 4Gi}}}}}}
- metadata: {{name: train-3, namespace: ml, uid: t3}}
  spec: {{containers: [{{name: worker, resources: {{limits: {{cpu: 8, memory: 90Gi}}}}}}]}}
- metadata: {{name: front-9, namespace: web, uid: f9}}
  spec: {{containers: [{{name: front, resources: {{requests: {{memory: 1Gi}}}}}}]}}
steps:
- admit: {{pod: p0}}
- admit: {{pod: u7}}
- admit: {{pod: t3}}
- admit: {{pod: f9}}
"""
CONFIG = """\
topologyManagerPolicy: restricted
reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi}}
- {numaNode: 1, limits: {memory: 1Gi}}
"""
KUBELET = "kind: KubeletConfiguration\nkubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 1Gi}\n"

CASES = {
    "simulate": "simulate scenario.yaml",
    "inspect": "inspect --sysfs-root sys --proc-root proc",
    "config-show": "config show config.yaml",
    "config-check": "config check config.yaml --machine machine.yaml",
    "reserve": "reserve --machine machine.yaml --config config.yaml --kubelet kubelet.yaml",
    "doctor": "doctor --root host",
    "state-show": "state show memory_manager_state",
}
LIVE = {"status", "explain", "reset", "earmark", "rebalance"}
# They start a plugin, write an archive, or print documents or lines of any length.
OTHERS = {"run", "agent", "claim", "demo", "export", "gather", "install", "uninstall"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG", "TERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    texts = {"scenario": SCENARIO, "machine": MACHINE, "config": CONFIG, "kubelet": KUBELET}
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    HostFiles(tmp_path / "host")
    nodes = tuple(
        NumaNode(node, 64 * GI, {GI: 8}, CpuSet(range(16 * node, 16 * node + 16)), {1 - node: 21})
        for node in range(2)
    )
    KernelFiles(tmp_path, Machine(nodes))


@pytest.fixture
def _state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "scenario.yaml", "--output", "json"]) == 0
    Path("dump.json").write_text(capsys.readouterr().out)
    assert main(["state", "export", "dump.json"]) == 0
    Path("memory_manager_state").write_text(capsys.readouterr().out)


def screen(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Return what a command prints, without times."""
    monkeypatch.setenv("COLUMNS", str(columns))
    main(CASES[name].split())
    shown = capsys.readouterr()
    assert shown.err == ""
    return re.sub(r"was last changed \d+ \w+ ago", "was last changed 2 s ago", shown.out)


def test_every_command_is_here() -> None:
    here = {case.partition(" ")[0] for case in CASES.values()}
    assert COMMANDS.keys() - here - LIVE - OTHERS == set()


@pytest.mark.usefixtures("_state")
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", CASES)
def test_screens(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = screen(name, columns, monkeypatch, capsys)
    check_screen(shown, SCREENS / f"{name}-{columns}.txt")
    assert max(map(len, shown.splitlines())) <= columns
    assert "\x1b" not in shown


@pytest.mark.usefixtures("_state")
@pytest.mark.parametrize("locale", ["C", "POSIX"])
@pytest.mark.parametrize("name", CASES)
def test_the_c_locale_is_ascii(
    name: str, locale: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    shown = screen(name, 80, monkeypatch, capsys)
    assert shown.isascii()
    assert len(shown.splitlines()) == len((SCREENS / f"{name}-80.txt").read_text().splitlines())


def in_terminal(words: list[str], environment: dict[str, str]) -> str:
    """Return what the program prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nri_numamem", *words],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # Linux: the other end is closed
    os.close(ours)
    assert process.wait() == 0
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulate", "config-show"])
def test_colours_are_for_terminals_only(name: str) -> None:
    words = CASES[name].split()
    plain = (SCREENS / f"{name}-80.txt").read_text()
    coloured = in_terminal(words, {})
    assert "\x1b[3" in coloured or "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    without = in_terminal(words, {"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", without)
    assert re.sub(r"\x1b\[[0-9;]*m", "", without) == plain


def as_nobody(words: list[str]) -> str:
    """Return what a command prints in a process of a user without rights.

    The command runs before as root, because that user may not be able to read its modules.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        sys.stdout = sys.stderr = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        status = main(words)
        sys.stdout.flush()
        os._exit(status)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        shown = file.read().decode()
    _pid, status = os.waitpid(child, 0)
    return f"{shown}status {os.waitstatus_to_exitcode(status)}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", ["simulate", "inspect", "config-check", "reserve"])
def test_a_described_machine_needs_no_root(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    screen(name, 80, monkeypatch, capsys)
    expected = (SCREENS / f"{name}-80.txt").read_text()
    words = CASES[name].split()
    assert as_nobody(words) == f"{expected}status {int(name == 'reserve')}\n"


@pytest.mark.parametrize(
    ("variables", "is_ascii"),
    [
        ({"LANG": "C"}, True),  # Python sets LC_CTYPE to C.UTF-8 then
        ({"LANG": "POSIX"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_the_locale_of_a_process(variables: dict[str, str], is_ascii: bool) -> None:
    command = [sys.executable, "-m", "nri_numamem", "inspect", *CASES["inspect"].split()[1:]]
    places = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(command, env={**places, **variables}, capture_output=True, check=True)
    assert done.stdout.isascii() is is_ascii


def test_an_environment_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nri_numamem.cli.render.screen._ENVIRONMENT", Path("none"))
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_CTYPE", "C.UTF-8")
    assert not screen("inspect", 80, monkeypatch, capsys).isascii()
