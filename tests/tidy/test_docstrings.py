"""Docstrings name, in double backticks, modules, functions, classes and members that exist."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.source import (
    PACKAGE,
    ROOT,
    imported_names,
    module_name,
    modules,
    name_of,
    source_files,
    tree_of,
)

QUOTED = re.compile(r"``([A-Za-z_]\w*(?:\.\w+)*)(?:\(\w*\))?``")
"""A name, or a call of it. Commands, paths and values have other characters."""

# Files of the kernel, programs, keys and values of documents, steps of scenarios, methods of NRI.
WORDS = {
    "copytruncate",
    "cpuless",
    "cpulist",
    "distance",
    "dram",
    "exec",
    "has_cpu",
    "has_memory",
    "journalctl",
    "movable",
    "prefer",
    "resv_hugepages",
    "sink_error",
    "stop",
    "ts",
    "UpdateContainers",
}


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names that a module defines or exports, but for the variables of its functions."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found |= {node.name, *_events_of(node)}
        if isinstance(node, ast.Module | ast.ClassDef):
            found |= {name for each in node.body for name in _assigned(each)}
    if path.name == "__init__.py":
        found |= {name for _, name in imported_names(path)}
    return frozenset(found)


def _events_of(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the name of the event whose record the class is: @event("admitted")."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            names = [each.value for each in decorator.args if isinstance(each, ast.Constant)]
            yield from (name for name in names if isinstance(name, str))


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    for target in targets:
        yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


@cache
def defined() -> frozenset[str]:
    """Return all names of the package, events included, and of what it imports from elsewhere."""
    found = {*WORDS, *vars(builtins), *sys.stdlib_module_names}
    for path in modules().values():
        found |= names_in(path)
        outside = [(m, name) for m, name in imported_names(path) if not m.startswith(PACKAGE)]
        found |= {part for module, name in outside for part in (*module.split("."), name)}
    return frozenset(found)


def exists(name: str) -> bool:
    """Return whether a name is a module, or a name in one, or of no module that the package has."""
    parts = name.removeprefix(f"{PACKAGE}.").split(".")
    for length in range(len(parts), 0, -1):
        end = "." + ".".join(parts[:length])
        found = [path for module, path in modules().items() if module.endswith(end)]
        if found and length == len(parts):
            return True
        if any(names_in(path).issuperset(parts[length:]) for path in found):
            return True
        if found and length > 1:
            return False
    is_outside = parts[0] in sys.stdlib_module_names or parts[0] in _libraries()
    return defined().issuperset(parts[:1] if is_outside else parts)


@cache
def _libraries() -> frozenset[str]:
    imports = (found for path in modules().values() for found in imported_names(path))
    return frozenset(module.split(".")[0] for module, _ in imports)


def quoted(tree: ast.Module) -> set[str]:
    """Return the names in the docstrings of a module, of its classes, functions and variables."""
    texts = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return {name for found in texts for name in QUOTED.findall(found)}


@pytest.mark.parametrize("path", source_files(PACKAGE), ids=name_of)
def test_names_in_docstrings_exist(path: Path) -> None:
    assert {name for name in quoted(tree_of(path)) if not exists(name)} == set()


def test_names_are_found_and_judged() -> None:
    text = '"""``one`` ``two.three()`` ``four five`` ``/six``."""\nx = 1\n"""``seven``."""\n'
    assert quoted(ast.parse(text)) == {"one", "two.three", "seven"}
    assert module_name(ROOT / PACKAGE / "engine/core/snapshot.py").endswith("engine.core.snapshot")
    for name in ("snapshot", "engine.core.snapshot", "snapshot.restore", "nri_numamem.engine"):
        assert exists(name), name
    for name in (
        "os.fsync",
        "ValueError",
        "pyroute2.IPRoute",
        "Engine.decide",
        "state_dump",
    ):
        assert exists(name), name
    for name in ("cpuset_verdict", "snapshot.melt", "engine.core.melt", "Engine.melt"):
        assert not exists(name), name
