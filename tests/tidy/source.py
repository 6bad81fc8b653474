"""The package's source as data: files, module names, imports. For the tests of this folder."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "nri_numamem"
GENERATED = "_pb2.py"


def source_files(*folders: str) -> list[Path]:
    """Return the Python files below `folders`, without generated ones."""
    found = [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    return [p for p in found if not p.name.endswith(GENERATED)]


def name_of(path: Path) -> str:
    """Return the path from the repository's root."""
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    """Return the dotted name of the module in a file; a package's for its `__init__.py`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(path.read_text())


@cache
def modules() -> dict[str, Path]:
    """Return dotted name -> file of every module of the package, generated ones included."""
    return {module_name(p): p for p in sorted((ROOT / PACKAGE).rglob("*.py"))}


def room_of(module: str) -> str:
    """Return the room of a module: `nri_numamem.engine.core.plan` -> `engine`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@cache
def imported_names(path: Path, *, at_run_time: bool = False) -> tuple[tuple[str, str], ...]:
    """Return each import of a file, at any depth, as (module, name); `import x` has no name.

    With `at_run_time` without those that only annotations need.
    """
    return (*_imports_in(path, at_run_time=at_run_time),)


def _imports_in(path: Path, *, at_run_time: bool) -> Iterator[tuple[str, str]]:
    waiting: list[ast.AST] = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        if at_run_time and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((node.module or "", alias.name) for alias in node.names)


def import_graph(*, at_run_time: bool = False) -> dict[str, set[str]]:
    """Return module -> modules of the package that it imports, also within functions."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        targets = set()
        for base, name in imported_names(path, at_run_time=at_run_time):
            if f"{base}.{name}" in known:
                targets.add(f"{base}.{name}")
            elif base in known:
                targets.add(base)
        graph[module] = targets - {module}
    return graph
