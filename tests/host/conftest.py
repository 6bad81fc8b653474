"""Machines as files below a temporary root.

The trees are written by hand in the format of real machines' files (names, layout, units, uneven
amounts of memory); none is a dump of a real host.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.laboratory.fake_sysfs import write_overlay

TREES = Path(__file__).parent / "trees"

Plant = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write an overlay and return the root that holds sys/ and proc/."""

    def write(overlay: Mapping[str, str]) -> Path:
        write_overlay(overlay, tmp_path)
        return tmp_path

    return write


@pytest.fixture
def tree(plant: Plant) -> Callable[[str], Path]:
    """Write the tree of that name and return its root."""

    def write(name: str) -> Path:
        overlay = yaml.safe_load((TREES / f"{name}.yaml").read_text(encoding="utf-8"))
        return plant(overlay)

    return write
