"""A package that is hidden while another one is imported."""

import importlib
import subprocess
import sys

import pytest

from nri_numamem.observe.log.optional import not_installed


def test_a_hidden_package_cannot_be_imported_meanwhile() -> None:
    name = "wave"  # a module that nothing here needs
    sys.modules.pop(name, None)
    with not_installed(name), pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)
    assert importlib.import_module(name).__name__ == name


def test_it_is_visible_again_after_an_error() -> None:
    sys.modules.pop("wave", None)
    with pytest.raises(RuntimeError), not_installed("wave"):
        raise RuntimeError
    assert importlib.import_module("wave").__name__ == "wave"


def test_a_package_that_is_in_use_stays() -> None:
    with not_installed("pytest"):
        assert importlib.import_module("pytest") is pytest


def test_the_log_does_not_load_rich() -> None:
    code = (
        "import sys, nri_numamem.observe.log.loggers; assert 'rich' not in sys.modules\n"
        "import rich.console"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
