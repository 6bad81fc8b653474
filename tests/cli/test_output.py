import argparse
import json

import pytest
import yaml

from nri_numamem.cli.output import add_output_argument, print_document


def test_the_option() -> None:
    parser = argparse.ArgumentParser()
    add_output_argument(parser)
    assert parser.parse_args([]).output == "table"
    assert parser.parse_args(["--output", "yaml"]).output == "yaml"


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
