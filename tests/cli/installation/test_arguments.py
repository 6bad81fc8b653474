"""The options of both commands are the same."""

import argparse
from pathlib import Path

from nri_numamem.cli.installation.arguments import add_installation_arguments


def test_options_and_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_installation_arguments(parser)
    assert vars(parser.parse_args([])) == {"runtime": None, "root": Path("/"), "dry_run": False}
    args = parser.parse_args(["--runtime", "crio", "--root", "/image", "--dry-run"])
    assert vars(args) == {"runtime": "crio", "root": Path("/image"), "dry_run": True}
