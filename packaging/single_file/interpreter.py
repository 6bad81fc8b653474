"""The interpreter of the single executable file, built once for the same inputs.

Everything is below one folder, the cache, which a build root sees as /build:

    root/                  Debian with a compiler
    downloads/             source packages and wheels
    interpreter-<hash>/    CPython and upb as one object file, and CPython's standard library
    openssl-<hash>/        see openssl.py

The hash is of the recipe, the sources, and the versions of the packages in the root.
"""

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from single_file import debian
from single_file.cached import Built, build, key_of
from single_file.commands import remove, report, run

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE.parent / "requirements.txt"
PYTHON = "3.13"
RECIPE = HERE / "build-interpreter"
SOURCE_PACKAGE = f"python{PYTHON}"


class Interpreter(Built):
    """A built interpreter."""


def cache_root() -> Path:
    """Return the default of the cache: `${XDG_CACHE_HOME:-~/.cache}/nri_numamem/single_file`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nri_numamem" / "single_file"


@contextlib.contextmanager
def locked(cache: Path) -> Iterator[None]:
    """Let one build at a time use the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(cache: Path, *, kinds: Sequence[str], jobs: int, refresh: bool) -> Interpreter:
    """Return the interpreter of the inputs; download and build what the cache lacks.

    Each of `kinds` is an argument of build-interpreter. The first one that the cache has is used,
    and if it has none the last one is built. With `refresh` the newest packages of Debian become
    inputs. The cache must be locked. Raises BuildError.
    """
    root, downloads = cache / "root", cache / "downloads"
    if refresh:
        remove(root, downloads)
    _remove_old_downloads(downloads)
    if not root.exists():
        report("installing a root of Debian to build in")
        debian.make_root(root)
    if not downloads.exists():
        report("downloading the sources")
        _download(downloads)
    for kind in kinds:
        source = debian.source_in(downloads, SOURCE_PACKAGE)
        (protobuf,) = downloads.glob("protobuf-*.tar.gz")
        key = key_of(cache, RECIPE, kind, source, protobuf)
        interpreter = Interpreter(cache, f"interpreter-{key}")
        if interpreter.is_built:
            return interpreter
    words = ("/build/downloads", interpreter.path_in_root, kind, str(jobs))
    build(interpreter, f"{kind} interpreter", RECIPE, *words)
    return interpreter


def _remove_old_downloads(downloads: Path) -> None:
    """Remove downloads of other requirements."""
    copy = downloads / REQUIREMENTS.name
    if not copy.exists() or copy.read_bytes() != REQUIREMENTS.read_bytes():
        remove(downloads)


def _download(downloads: Path) -> None:
    partial = downloads.with_name("downloads.partial")
    remove(partial)
    partial.mkdir()
    debian.fetch_source(partial, SOURCE_PACKAGE)
    # pip checks the hashes. protobuf comes as sources, the others as wheels.
    machine = os.uname().machine
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--no-binary", "protobuf", "--python-version", PYTHON),
        *("--implementation", "cp", "--platform", f"manylinux2014_{machine}"),
        *("--platform", "any", "--dest", partial, "--requirement", REQUIREMENTS),
    )
    shutil.copyfile(REQUIREMENTS, partial / REQUIREMENTS.name)
    partial.rename(downloads)
