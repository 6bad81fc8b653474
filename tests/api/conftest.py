"""The generator as a module: api/ is no package, so it is loaded by its path."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the repository."""
    return ROOT


@pytest.fixture
def generate() -> ModuleType:
    """Return a fresh copy of api/generate.py that a test may change."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "api" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
