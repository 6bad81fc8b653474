"""Rules on imports that import-linter cannot express; its own contracts are in pyproject.toml."""

import sys
from pathlib import Path

import pytest

from tests.tidy.source import (
    PACKAGE,
    import_graph,
    imported_names,
    name_of,
    room_of,
    source_files,
)

PURE_ROOMS = ("numa", "memorymanager", "topologymanager", "engine", "scenario", "export")

# All that a pure room may import from outside of the package. Nothing here reads a clock, a file or
# a socket, and nothing depends on the interpreter's internals.
PURE_STANDARD_MODULES = frozenset({
    "__future__", "abc", "bisect", "collections", "collections.abc", "contextlib", "copy",
    "dataclasses", "decimal", "enum", "fnmatch", "fractions", "functools", "heapq", "itertools",
    "json", "math", "operator", "re", "string", "textwrap", "types", "typing", "zlib",
})  # fmt: skip

# These rooms face the runtime, the host's kernel and the operator. Joining all three is the job
# of a program.
OUTWARD_ROOMS = {"nri", "host", "observe"}
PROGRAMS = {"daemon", "cli"}

FEATURES = f"{PACKAGE}.engine.features."
# The one module of the engine that names its features.
SETUP = f"{PACKAGE}.engine.setup"


@pytest.mark.parametrize(
    "path", source_files(*(f"{PACKAGE}/{room}" for room in PURE_ROOMS)), ids=name_of
)
def test_a_pure_room_imports_only_listed_standard_modules(path: Path) -> None:
    outside = {m for m, _ in imported_names(path) if m.split(".")[0] != PACKAGE}
    assert outside - PURE_STANDARD_MODULES == set()


def test_the_list_for_pure_rooms_names_standard_modules() -> None:
    assert {m.split(".")[0] for m in PURE_STANDARD_MODULES} <= sys.stdlib_module_names


def test_only_programs_join_runtime_host_and_logs() -> None:
    joined: dict[str, set[str]] = {}
    for module, targets in import_graph().items():
        joined.setdefault(room_of(module), set()).update(room_of(target) for target in targets)
    joining = {room for room, rooms in joined.items() if rooms >= OUTWARD_ROOMS}
    assert "daemon" in joining
    assert joining <= PROGRAMS


def test_the_program_imports_nothing_of_the_tests() -> None:
    found = [
        p for p in source_files(PACKAGE) for m, _ in imported_names(p) if m.startswith("tests")
    ]
    assert found == []


def test_one_module_of_the_engine_imports_features() -> None:
    found = {
        module
        for module, targets in import_graph().items()
        if room_of(module) == "engine" and not module.startswith(FEATURES)
        if any(target.startswith(FEATURES) for target in targets)
    }
    assert found == {SETUP}


def test_no_modules_import_each_other() -> None:
    assert [sorted(cycle) for cycle in cycles(import_graph(at_run_time=True))] == []


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of nodes that reach each other."""
    reached = {node: reachable(graph, node) for node in graph}
    found: list[set[str]] = []
    for node in sorted(graph):
        cycle = {other for other in reached[node] if node in reached[other]}
        if cycle and cycle not in found:
            found.append(cycle)
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all nodes that a path of at least one step leads to."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(graph[node])
    return seen


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert cycles({"a": {"b"}, "b": set()}) == []
