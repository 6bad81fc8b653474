"""Help with whole words, suggestions, and the usage of the right command."""

import subprocess
import sys

import pytest

from nri_numamem.cli.parser import Parser


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def new_parser() -> Parser:
    parser = Parser(prog="program", description="Reads /a-long/path-with/many-hyphens/in-it/x-y.")
    commands = parser.add_subparsers(dest="command")
    show = commands.add_parser("show", allow_abbrev=False)
    show.set_defaults(parser=show)
    show.add_argument("--output", choices=("table", "json"))
    show.add_argument(
        "--file", default="/var/lib/nri-numamem/100%", help="what to read, a text (%(default)s)"
    )
    return parser


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Return the first line of the usage, and the error."""
    with pytest.raises(SystemExit) as caught:
        new_parser().parse(arguments)
    assert caught.value.code == 2
    usage, *_, error = capsys.readouterr().err.splitlines()
    return usage, error


def test_words_with_hyphens_stay_whole() -> None:
    parser = new_parser()
    assert "/a-long/path-with/many-hyphens/in-it/x-y." in parser.format_help().split()
    assert parser.format_help() == parser.format_help()


def test_defaults_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        new_parser().parse(["show", "--help"])
    shown = capsys.readouterr().out
    assert "(/var/lib/nri-numamem/100%)" in shown.split()
    assert shown.isascii()


def test_examples_are_at_the_end() -> None:
    parser = new_parser()
    assert "examples" not in parser.format_help()
    parser.examples = ["program show --output json"]
    assert parser.format_help().endswith("\nexamples:\n  program show --output json\n")


def test_a_valid_command_line() -> None:
    args = new_parser().parse(["show", "--output", "json"])
    assert (args.command, args.output) == ("show", "json")


def test_a_suggestion_for_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    usage, error = error_of(capsys, "shwo")
    assert usage.startswith("usage: program ")
    assert error.endswith("; did you mean show?")


def test_a_suggestion_for_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    usage, error = error_of(capsys, "show", "--output", "jsn")
    assert usage.startswith("usage: program show ")
    assert error.endswith("; did you mean json?")


def test_a_suggestion_for_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    usage, error = error_of(capsys, "show", "--otput=json")
    assert usage.startswith("usage: program show ")
    assert error.endswith("unrecognized arguments: --otput=json; did you mean --output?")


@pytest.mark.parametrize("arguments", [("--zzz",), ("show", "zzz"), ("show", "--output", "zzz")])
def test_no_suggestion_for_something_else(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert "did you mean" not in error_of(capsys, *arguments)[1]


def test_a_parser_without_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Parser(prog="plain").parse(["--unknown"])
    assert capsys.readouterr().err.endswith("plain: error: unrecognized arguments: --unknown\n")


@pytest.mark.parametrize(("columns", "lines"), [("40", 5), ("200", 1)])
def test_the_help_is_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, lines: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    parser = Parser(prog="x", description="some words " * 15)
    description = parser.format_help().split("\n\n")[1]
    assert len(description.splitlines()) == lines


@pytest.mark.parametrize("columns", ["", "0", "wide"])
def test_without_a_terminal_the_help_has_80_columns(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", None)
    text = Parser(prog="x", description="word " * 40).format_help()
    assert 70 < max(map(len, text.splitlines())) <= 78


def test_a_plugin_does_not_load_compression_libraries() -> None:
    script = """
import sys
before = {*sys.modules}
from nri_numamem.cli.main import new_parser
new_parser(["run"]).parse(["run"])
print({"bz2", "lzma", "shutil"} & ({*sys.modules} - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
