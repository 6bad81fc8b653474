"""The interpreter of the single executable file, built once for the same inputs.

Everything is below one folder, the cache, which a build root sees as /build:

    root/                  Debian with a compiler
    downloads/             source packages and wheels
    interpreter-<hash>/    CPython and upb as one object file, and CPython's standard library

The hash is of the recipe, the sources, and the versions of the packages in the root.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from single_file import debian
from single_file.commands import remove, run, run_in_root

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE.parent / "requirements.txt"
PYTHON = "3.13"
RECIPE = HERE / "build-interpreter"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A built interpreter; `name` is its folder in the cache."""

    cache: Path
    name: str

    @property
    def root(self) -> Path:
        """The build root."""
        return self.cache / "root"

    @property
    def downloads(self) -> Path:
        """Source packages and wheels."""
        return self.cache / "downloads"

    @property
    def folder(self) -> Path:
        """The interpreter; /build/<name> in the root."""
        return self.cache / self.name

    @property
    def is_built(self) -> bool:
        """Return whether the build of the interpreter is complete."""
        return (self.folder / "built").exists()


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
        _report("installing a root of Debian to build in")
        debian.make_root(root)
    if not downloads.exists():
        _report("downloading the sources")
        _download(downloads)
    for kind in kinds:
        interpreter = Interpreter(cache, f"interpreter-{_key(root, downloads, kind)}")
        if interpreter.is_built:
            return interpreter
    _build(interpreter, kind, jobs)
    return interpreter


def _report(text: str) -> None:
    print(f"single file: {text}", file=sys.stderr, flush=True)


def _remove_old_downloads(downloads: Path) -> None:
    """Remove downloads of other requirements."""
    copy = downloads / REQUIREMENTS.name
    if not copy.exists() or copy.read_bytes() != REQUIREMENTS.read_bytes():
        remove(downloads)


def _download(downloads: Path) -> None:
    partial = downloads.with_name("downloads.partial")
    remove(partial)
    partial.mkdir()
    debian.fetch_source(partial)
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


def _key(root: Path, downloads: Path, kind: str) -> str:
    """Return a hash of what goes into the interpreter."""
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    packages = [line for line in status.splitlines() if line.startswith(("Package:", "Version:"))]
    (source,) = downloads.glob(f"{debian.SOURCE_PACKAGE}_*.dsc")
    (protobuf,) = downloads.glob("protobuf-*.tar.gz")
    files = (RECIPE, source, protobuf)
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256(json.dumps([kind, packages, hashes]).encode()).hexdigest()[:16]


def _build(interpreter: Interpreter, kind: str, jobs: int) -> None:
    began = time.monotonic()
    _report(f"building the interpreter ({kind})")
    for old in interpreter.cache.glob("interpreter-*"):
        if not (old / "built").exists():  # of a build that was interrupted
            remove(old)
    interpreter.folder.mkdir()
    shutil.copy2(RECIPE, interpreter.folder)
    folder = f"/build/{interpreter.name}"
    command = (f"{folder}/{RECIPE.name}", "/build/downloads", folder, kind, str(jobs))
    log = run_in_root(interpreter.root, interpreter.cache, *command)
    (interpreter.folder / "log").write_text(log, encoding="utf-8")
    seconds = time.monotonic() - began
    (interpreter.folder / "built").write_text(f"{kind}, {seconds:.0f} s\n", encoding="ascii")
    _report(f"the interpreter took {seconds:.0f} s")
