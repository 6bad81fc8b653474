"""Freezes the plugin and its libraries, and links them with the interpreter."""

import shutil
import tempfile
import zipfile
from pathlib import Path

from single_file import licenses
from single_file.commands import run_in_root
from single_file.interpreter import HERE, Interpreter
from single_file.openssl import OpenSSL

ROOT = HERE.parents[1]
SOURCES = ("freeze.py", "older_glibc.c", "link", "main.c")

# A module of CPython whose library is left out. pyroute2 imports it for functions that the plugin
# does not use.
ABSENT = ("sqlite3",)


def build(
    interpreter: Interpreter, openssl: OpenSSL, hook: Path, program: Path, twin: Path | None = None
) -> None:
    """Write the executable file `program`; the cache must be locked. Raises BuildError.

    `hook` is the hook program of claims, which the file contains as data. `twin` becomes the same
    program, but it runs its first argument as Python code, for tests.
    """
    with tempfile.TemporaryDirectory(prefix="link-", dir=interpreter.cache) as text:
        work = Path(text)
        for name in SOURCES:
            shutil.copy2(HERE / name, work)
        _collect(interpreter, openssl, work / "modules")
        _write_hook(hook, work / "modules")
        built = interpreter.path_in_root
        link = f"./link {built} {openssl.path_in_root}"
        freeze = f"{built}/python/python -I freeze.py . {built}/python/Lib modules"
        _run(interpreter, work, f"PYTHONHASHSEED=0 {freeze}")
        _run(interpreter, work, f"{link} program")
        _install(work / "program", program)
        if twin is not None:
            code = 'L"import sys; exec(sys.argv[1])"'
            _run(interpreter, work, f"{link} twin -DCOMMAND='{code}'")
            _install(work / "twin", twin)


def _run(interpreter: Interpreter, work: Path, script: str) -> None:
    command = f"cd /build/{work.name} && {script}"
    run_in_root(interpreter.root, interpreter.cache, "sh", "-ec", command)


def _install(built: Path, program: Path) -> None:
    program.parent.mkdir(parents=True, exist_ok=True)
    partial = program.with_name(f".{program.name}.partial")
    shutil.copyfile(built, partial)
    partial.chmod(0o755)
    partial.rename(program)


def _collect(interpreter: Interpreter, openssl: OpenSSL, modules: Path) -> None:
    """Put the plugin, its libraries and a module about both into one folder."""
    modules.mkdir()
    versions = {}
    for wheel in sorted(interpreter.downloads.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        if name not in licenses.NOT_INSIDE:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(modules)
            versions[name] = version
    (source,) = interpreter.downloads.glob("protobuf-*.tar.gz")
    versions["protobuf"] = source.name.removeprefix("protobuf-").removesuffix(".tar.gz")
    shutil.copytree(interpreter.folder / "protobuf/google", modules / "google")
    for folder in (ROOT / "nri_numamem", HERE / "frozen"):
        target = modules if folder.name == "frozen" else modules / folder.name
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, target, ignore=ignored, dirs_exist_ok=True)
    for name in ABSENT:
        (modules / f"{name}.py").write_text("from absent_library import __getattr__\n")
    texts = licenses.collect(interpreter, openssl, ROOT)
    (modules / "single_file_contents.py").write_text(
        f"VERSIONS = {dict(sorted(versions.items()))!r}\nLICENSES = {texts!r}\n", encoding="utf-8"
    )


def _write_hook(hook: Path, modules: Path) -> None:
    """Write the module with the hook program; nri_numamem/cli/installation/hook_program imports it.

    A module of its own, because a process that imports it copies the program into its memory.
    """
    text = f"PROGRAM = {hook.read_bytes()!r}\n"
    (modules / "single_file_claim_hook.py").write_text(text, encoding="ascii")
