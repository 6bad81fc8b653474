"""The package: its exports, its example, and its dependencies: only the standard library."""

import ast
import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from nri_numamem import ttrpc

FOLDER = Path(ttrpc.__file__).parent

# Prints what importing all of the package pulled in; -I -S leaves no way to site-packages.
IMPORT_ALL = """
import sys
sys.path.insert(0, {root!r})
import nri_numamem.ttrpc, nri_numamem.ttrpc.testing
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def test_all_names_the_public_attributes() -> None:
    assert len(set(ttrpc.__all__)) == len(ttrpc.__all__)
    public = {name for name in vars(ttrpc) if not name.startswith("_")}
    submodules = {path.stem for path in FOLDER.glob("*.py")}
    assert public - submodules == set(ttrpc.__all__)


def test_example_in_the_docstring() -> None:
    failed, tried = doctest.testmod(ttrpc)
    assert (failed, tried > 5) == (0, True)


def test_standard_library_only() -> None:
    script = IMPORT_ALL.format(root=str(FOLDER.parents[1]))
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], check=True, capture_output=True, text=True
    )
    names = set(found.stdout.split())
    assert "nri_numamem" in names
    assert names - set(sys.stdlib_module_names) - {"__main__", "__mp_main__"} == {"nri_numamem"}


@pytest.mark.parametrize("name", ["frames", "envelope", "status", "server", "client"])
def test_the_core_does_no_io(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    allowed = {"struct", "logging", "enum", "typing", "collections.abc"}
    assert {name for name in found if not name.startswith("nri_numamem.ttrpc.")} <= allowed
