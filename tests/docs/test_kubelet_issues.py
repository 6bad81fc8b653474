"""The commands of docs/kubelet-issues.md run, and print the lines that the page quotes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost, four_nodes
from tests.cli.status.pages_host import write_pages

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/kubelet-issues.md").read_text()
EXAMPLES = ROOT / "docs/examples"
MI = 1 << 20
_QUOTED = re.compile(r"^```console\n\$ nri-numamem ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = {command: lines.splitlines() for command, lines in _QUOTED.findall(PAGE)}
ON_A_HOST = [command for command in COMMANDS if "--now" in command or command.startswith("status")]


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[LiveHost]:
    """Yield a host with page cache on a remote node, and hugepages that the accounting lacks."""
    host = LiveHost(tmp_path, four_nodes())
    container = host.run("db", "postgres", 24 * GI)
    directory = host.directory("db", container.container_id)
    write_pages(directory, anon={0: 9 * GI}, file={0: 40 * MI, 1: 210 * MI})
    host.use_hugepages(0, 4)
    host.save()
    host.describe()
    with host.running():
        yield host


def expect(quoted: list[str], printed: list[str]) -> None:
    """Fail unless the quoted lines are among the printed ones, in this order."""
    left = iter(printed)
    missing = [line for line in quoted if line not in left]
    assert missing == [], "\n".join(printed)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in ON_A_HOST])
def test_a_scenario(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == 0
    expect(COMMANDS[command], capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("command", ON_A_HOST)
def test_a_command_that_reads_the_host(
    command: str, host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), *host.arguments()]) == 0
    expect(COMMANDS[command], capsys.readouterr().out.splitlines())


def test_each_issue_has_a_section_with_a_command() -> None:
    sections = dict(re.findall(r"^## (\d+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    rows = re.findall(
        r"^\| \[#(\d+)\]\(\S+/(?:issues|pull)/(\d+)\).*\(#(\d+)\) \|$", PAGE, re.MULTILINE
    )
    assert len(rows) == 11
    assert [set(row) for row in rows] == [{number} for number in sections]
    assert all(_QUOTED.search(text) for text in sections.values())


def test_each_example_is_used() -> None:
    used = {word for command in COMMANDS for word in command.split() if word.endswith(".yaml")}
    assert used == {str(path.relative_to(ROOT)) for path in EXAMPLES.glob("*.yaml")}


def test_a_line_that_is_missing_or_elsewhere_is_found() -> None:
    expect(["a", "c"], ["a", "b", "c"])
    for quoted in (["d"], ["c", "a"]):
        with pytest.raises(AssertionError):
            expect(quoted, ["a", "b", "c"])
