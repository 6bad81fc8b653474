"""What the tests of the memory manager share: the oracle, small machines, scenarios."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(path: Path) -> ModuleType:
    """Load a helper module beside the tests, which are no package."""
    name = f"numamem_tests_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    return load(Path(__file__).with_name("oracle.py"))


@pytest.fixture(scope="session")
def scenario() -> ModuleType:
    return load(Path(__file__).with_name("scenario.py"))


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    return load(Path(__file__).with_name("worlds.py"))
