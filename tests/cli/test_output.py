"""The documents of the commands; docs/output.md has their keys."""

import argparse
import json
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.cli.output import add_log_arguments, add_output_argument, print_document
from tests.cli.doctor.host_files import CONFIG, HostFiles
from tests.cli.documented import documented_keys


def test_the_option() -> None:
    parser = argparse.ArgumentParser()
    add_output_argument(parser)
    assert parser.parse_args([]).output == "table"
    assert parser.parse_args(["--output", "yaml"]).output == "yaml"


@pytest.mark.parametrize("title", ["", "log"])
def test_the_options_of_the_log(title: str) -> None:
    parser = argparse.ArgumentParser()
    add_log_arguments(parser, title)
    assert vars(parser.parse_args([])) == {"log_level": None, "log_format": None}
    found = parser.parse_args(["--log-level", "debug", "--log-format", "json"])
    assert (found.log_level, found.log_format) == ("debug", "json")


def test_both_formats_have_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    shared = [1, 2]
    document = {"b": shared, "a": shared, "text": "on", "none": None, "é": "\x1b"}
    print_document(document, "json")
    assert json.loads(capsys.readouterr().out) == document
    print_document(document, "yaml")
    shown = capsys.readouterr().out
    assert yaml.safe_load(shown) == document
    assert shown.startswith("b:")
    assert shown.isascii()
    assert "&" not in shown


@pytest.mark.parametrize("command", ["doctor", "config show", "state show", "reserve"])
def test_commands_show_one_document_in_both_formats(
    command: str, host_files: HostFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text("machine: {nodes: [{id: 0, memory: 8Gi}]}\n")
    operands = {
        "doctor": ["--root", str(host_files.root)],
        "config show": [str(host_files.path(CONFIG))],
        "state show": [str(Path(__file__).parents[1] / "cases/state/v1-one-node.json")],
        "reserve": ["--machine", str(machine), "--config", str(host_files.path(CONFIG))],
    }
    shown = {}
    for output in ("json", "yaml"):
        main([*command.split(), "--output", output, *operands[command]])
        shown[output] = capsys.readouterr().out
    document = json.loads(shown["json"])
    assert list(document) == documented_keys(command)
    assert document["version"] == 1
    assert yaml.safe_load(shown["yaml"]) == document
