"""The generator as a module: api/ is no package, so it is loaded by its path."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.load_module import load_module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the repository."""
    return ROOT


@pytest.fixture
def generate() -> ModuleType:
    """Return a fresh copy of api/generate.py that a test may change."""
    return load_module(ROOT / "api" / "generate.py")
