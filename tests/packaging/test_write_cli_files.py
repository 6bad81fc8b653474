"""The man page and the completions have every command and option."""

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from nri_numamem.cli.main import COMMANDS, main
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.config.settings import Settings
from tests.load_module import load_module

ROOT = Path(__file__).resolve().parents[2]
STATE_DIRECTORY = Path(Settings().state_file_or_default).parent
ROFF = re.compile(r"\.(?:TH|SH|SS|TP|PP|RS|RE|B|BR|I|P|nf|fi)\b")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return load_module(ROOT / "packaging" / "write_cli_files.py")


def options_of(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.MULTILINE))


def test_the_man_page_has_all_commands_and_options(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    text = program.man_page().replace(r"\-", "-")
    assert text.startswith('.TH NRI-NUMAMEM "8" ')
    found = 0
    for command in COMMANDS:
        section = text.partition(f"\n.SS \\fBnri-numamem {command}\\fR\n")[2]
        for option in options_of(command, capsys):
            assert f"\\fB{option}\\fR" in section
            found += 1
    assert found > 20


def test_the_man_page_has_requests_of_roff_only_on_purpose(program: ModuleType) -> None:
    lines = program.man_page().splitlines()
    assert [line for line in lines if line[:1] == "." and not ROFF.match(line)] == []
    assert any(line.startswith("\\&.") for line in lines), "no such line: the rule is untested"
    assert "\N{NON-BREAKING HYPHEN}" not in "".join(lines)


def test_the_sections_of_the_man_page(program: ModuleType) -> None:
    text = program.man_page()
    sections = re.findall(r"^\.SH (.+)$", text, re.MULTILINE)
    assert sections[-4:] == ["EXAMPLES", "FILES", "EXIT STATUS", "SEE ALSO"]
    files = text.partition(".SH FILES")[2].partition(".SH")[0].replace("\\-", "-")
    for known in (
        DEFAULT_CONFIG,
        STATE_DIRECTORY,
        "/opt/nri/plugins",
    ):
        assert str(known) in files


def test_the_man_page_is_reproducible(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    first = program.man_page()
    assert first == program.man_page()
    assert "1970\\-01\\-02" in first.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("si", ["simulate"]),
        ("simulate --fail", ["--fail-on-refusal"]),
        ("config sh", ["show"]),
        ("run --log-level war", ["warning"]),
    ],
)
def test_bash_completes(
    program: ModuleType, tmp_path: Path, words: str, expected: list[str]
) -> None:
    path, *_ = (path for path in program.write(tmp_path) if path.name == "nri-numamem")
    script = (
        f"source {path}; COMP_WORDS=(nri-numamem {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1));"
        '_shtab_nri_numamem; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_other_shells_complete_all_commands(program: ModuleType, tmp_path: Path) -> None:
    texts = {path.name: path.read_text() for path in program.write(tmp_path)}
    for name in ("_nri-numamem", "nri-numamem.fish"):
        assert [command for command in COMMANDS if command not in texts[name]] == []
        assert "\N{NON-BREAKING HYPHEN}" not in texts[name]
