"""House rules over the source that no linter has."""

import ast
from pathlib import Path

import pytest

from tests.tidy.source import imported_names, name_of, source_files, tree_of

FILE_LINES_LIMIT = 300
FUNCTION_LINES_LIMIT = 50


@pytest.mark.parametrize("path", source_files("nri_numamem", "api"), ids=name_of)
def test_files_and_functions_stay_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_LIMIT
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES_LIMIT, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", source_files("nri_numamem"), ids=name_of)
def test_a_file_opens_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


def test_libraries_of_protocols_stay_in_their_rooms() -> None:
    """What touches them must be few files; the first two ship no types."""
    rooms = {
        "pyroute2": ("host",),
        "google.protobuf": ("nri", "kubelet"),
        "h2": ("grpc",),
    }
    for path in source_files("nri_numamem"):
        for module, _ in imported_names(path):
            for library, allowed in rooms.items():
                if module == library or module.startswith(f"{library}."):
                    assert path.parent.name in allowed, f"{path} imports {module}"
