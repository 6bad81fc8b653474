"""Compiles Python modules into an assembler file and a table that CPython takes as frozen modules.

Runs under the interpreter that the modules are for, with its standard library only:

    freeze.py OUT FOLDER...

FOLDER holds modules. OUT gets frozen.bin with the code, frozen.S and frozen.c. The same sources
give the same bytes.
"""

import argparse
import ast
import marshal
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

# Patterns of what nothing here imports: tests, other platforms, tools, what needs a library that is
# not in the file, and the data of syntax highlighting, which is larger than the plugin.
UNUSED = (
    "__hello__",
    "__phello__*",
    "_a[in][xd]*_support",
    "_ios_support",
    "_osx_support",
    "_pydatetime",
    "_pydecimal",
    "_pyio",
    "_pyrepl*",
    "antigravity",
    "asyncio.windows_*",
    "config-*",
    "ctypes.macholib*",
    "curses*",
    "dbm*",
    "doctest",
    "ensurepip*",
    "google.protobuf.compiler*",
    "google.protobuf.internal.*_benchmark",
    "google.protobuf.internal.testing_refleaks",
    "google.protobuf.testdata*",
    "idlelib*",
    "lib2to3*",
    "multiprocessing.popen_spawn_win32",
    "pydoc*",
    "pygments.formatters.[!_]*",
    "pygments.lexers.[!_]*",
    "pygments.sphinxext",
    "pygments.styles.[!_]*",
    "pyroute2.fixtures*",
    "site-packages*",
    "sqlite3.*",
    "test*",
    "this",
    "tkinter*",
    "turtle*",
    "venv*",
    "xml*",
)

# Modules in C that main.c adds; their packages are needed too.
BUILT_IN = ("google._upb._message",)

# The stand-in of a library that is not used here.
_WITHOUT_SSL = {"import ssl": "import absent_library as ssl"}
_WITHOUT_TRIED_SSL = {"    import ssl": "    import absent_library as ssl"}

# Module -> line -> the line to compile instead. Only the exporter may load OpenSSL, which takes
# megabytes: what the plugin's process imports must not.
REPLACED_LINES = {
    "asyncio.base_events": _WITHOUT_TRIED_SSL,
    "asyncio.selector_events": _WITHOUT_TRIED_SSL,
    "asyncio.sslproto": _WITHOUT_TRIED_SSL,
    # The plugin's metrics import this module for HTTP. Its HTTPS loads ssl when a context is made.
    "http.client": {
        "    import ssl": "    pass",
        "    context = ssl._create_default_https_context()": (
            "    import ssl; context = ssl._create_default_https_context()"
        ),
    },
    "prometheus_client.exposition": _WITHOUT_SSL,
    "pyroute2.netlink.rtnl.probe_msg": _WITHOUT_SSL,
    "urllib.request": {"    import ssl": "    pass"},
    # The search for other folders of this package; there are none, and it takes milliseconds.
    "google": {
        "from pkgutil import extend_path": "",
        "__path__ = extend_path(__path__, __name__)": "",
    },
}


class Module(NamedTuple):
    """A module's code, marshalled."""

    name: str
    code: bytes
    is_package: bool


def modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and source file of the modules below a folder, in a fixed order."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        name = ".".join(parts)
        if name and not any(fnmatchcase(name, pattern) for pattern in UNUSED):
            yield name, path


def compiled(name: str, source: str) -> bytes:
    """Return the code of a module with assertions and line numbers, without docstrings.

    Classes keep their docstrings: dataclasses.dataclass would compute one at each start.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            _strip_docstring(node)
    # The name that CPython gives its own frozen modules. Tracebacks look for no such file.
    code = compile(tree, f"<frozen {name}>", "exec", dont_inherit=True, optimize=0)
    # Once more, because the bytes depend on how many references the compiler still holds.
    return marshal.dumps(marshal.loads(marshal.dumps(code)))  # noqa: S302 - just made


def _strip_docstring(node: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(node, clean=False) is None:
        return
    first = node.body.pop(0)
    if not node.body and not isinstance(node, ast.Module):
        node.body.append(ast.copy_location(ast.Pass(), first))


def freeze(folders: list[Path]) -> list[Module]:
    """Return the modules of folders, sorted by name; ValueError if a line to replace is missing."""
    found: dict[str, Module] = {}
    for folder in folders:
        for name, path in modules_in(folder):
            source = replaced(name, path.read_text(encoding="utf-8"))
            found[name] = Module(name, compiled(name, source), path.name == "__init__.py")
    for name in [*found, *BUILT_IN]:  # packages without a file
        while name := name.rpartition(".")[0]:
            found.setdefault(name, Module(name, compiled(name, ""), is_package=True))
    return sorted(found.values())


def replaced(name: str, source: str) -> str:
    """Return a module's source with its lines of REPLACED_LINES; ValueError if one is missing."""
    lines = source.splitlines(keepends=True)
    for old, new in REPLACED_LINES.get(name, {}).items():
        if f"{old}\n" not in lines:
            raise ValueError(f"module {name} has no line {old!r}; see REPLACED_LINES")
        lines[lines.index(f"{old}\n")] = f"{new}\n"
    return "".join(lines)


def write(modules: list[Module], out: Path) -> None:
    """Write the code as frozen.bin, its place in the program as frozen.S, the table as frozen.c."""
    offset, table = 0, []
    with (out / "frozen.bin").open("wb") as file:
        for module in modules:
            size = len(module.code)
            place = f"frozen_code + {offset}"
            table.append(f'    {{"{module.name}", {place}, {size}, {int(module.is_package)}}},\n')
            offset += file.write(module.code + bytes(-size % 16))
    (out / "frozen.S").write_text(
        '.section .rodata.frozen,"a",@progbits\n.balign 4096\n'
        ".globl frozen_code\n.hidden frozen_code\n"
        'frozen_code: .incbin "frozen.bin"\n.balign 4096\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )
    (out / "frozen.c").write_text(
        "#include <Python.h>\nextern const unsigned char frozen_code[];\n"
        f"const size_t frozen_size = {offset};\n"
        f"const struct _frozen frozen_modules[] = {{\n{''.join(table)}    {{0}}}};\n"
    )


def main() -> None:
    """Freeze what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", nargs="+", type=Path)
    args = parser.parse_args()
    modules = freeze(args.folders)
    write(modules, args.out)
    print(f"{len(modules)} modules, {sum(len(module.code) for module in modules)} bytes")


if __name__ == "__main__":
    main()
