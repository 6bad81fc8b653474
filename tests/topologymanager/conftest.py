"""The oracle and the small machines of the memory manager's tests serve here too."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent.parent / "memorymanager"


def load(path: Path) -> ModuleType:
    name = f"numamem_tests_topologymanager_{path.stem}"
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
    return load(FOLDER / "oracle.py")


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    return load(FOLDER / "worlds.py")
