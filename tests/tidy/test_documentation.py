"""What a user can set is written down."""

import argparse
import re
from pathlib import Path

from nri_numamem.cli import run
from nri_numamem.engine import settings

ROOT = Path(__file__).resolve().parents[2]


def documented() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(page.read_text() for page in pages)


def test_every_setting_is_documented() -> None:
    words = set(re.findall(r"\w+", documented()))
    assert set(settings._KEYS) - words == set()


def test_every_flag_that_is_documented_exists() -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    named = set(re.findall(r"nri-numamem run.*", documented()))
    used = {flag for line in named for flag in re.findall(r"--[a-z-]+", line)}
    assert used
    assert used <= flags
