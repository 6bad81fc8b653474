"""Builds the hook program of resource claims, which is written in Go; see README.md."""

import os
import shutil
from pathlib import Path

from single_file.commands import BuildError, run

from nri_numamem.version import VERSION

HERE = Path(__file__).resolve().parent
NAME = "claim-hook"
MACHINE = os.uname().machine
LICENSE = HERE / "LICENSE-Go"
"""The licence of Go's runtime and standard library, which are in the program."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FETCHED = HERE.parents[1] / "build/go/bin/go"
_INSTALLED = Path("/usr/local/go/bin/go")
# What could change the program, set by the user or by Go's defaults.
_SETTINGS = {
    "CGO_ENABLED": "0",
    "GOAMD64": "v1",
    "GOARM64": "v8.0",
    "GOEXPERIMENT": "",
    "GOFLAGS": "",
    "GOOS": "linux",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
_OPTIONS = ("-trimpath", "-buildvcs=false", f"-ldflags=-s -w -buildid= -X main.version={VERSION}")


def build(folder: Path, machine: str = MACHINE) -> Path:
    """Build the program for a machine into a folder; return its path. Raises BuildError.

    The same sources and the same Go give the same bytes.
    """
    program = folder.resolve() / NAME
    settings = {**_SETTINGS, "GOARCH": _ARCHITECTURES[machine]}
    words = [f"{name}={value}" for name, value in settings.items()]
    run("env", *words, go_program(), "build", *_OPTIONS, "-o", program, ".", cwd=HERE)
    return program


def go_version(program: Path) -> str:
    """Return the version of Go that a program was built with, such as "1.24.4"."""
    return run(go_program(), "version", program).split()[-1].removeprefix("go")


def go_program() -> str | Path:
    """Return Go; tests/conformance/install-tools installs it, and looks for it in this order."""
    if os.environ.get("GO"):
        return os.environ["GO"]
    if _FETCHED.exists():
        return _FETCHED
    found = shutil.which("go") or (_INSTALLED if _INSTALLED.exists() else None)
    if found is None:
        raise BuildError("Go is not installed; run: tests/conformance/install-tools")
    return found
