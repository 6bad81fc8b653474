"""What the Debian and the RPM package have in common: files, version, script, command line."""

import argparse
import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import claim_hook
from single_file.commands import BuildError

from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.installation.facts import COPY
from nri_numamem.cli.installation.unit_text import UNIT
from nri_numamem.config.example import example_text
from nri_numamem.version import VERSION

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAME = "nri-numamem"
MACHINE = platform.machine()
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAM = f"usr/bin/{NAME}"
HOOK = hook_program.PATH.lstrip("/")
CONFIGURATION = f"etc/{NAME}/config.yaml"
DOCUMENTS = f"usr/share/doc/{NAME}"
# Alert rules for Prometheus, and a dashboard for Grafana.
MONITORING = ("packaging/prometheus/nri-numamem.rules.yml", "packaging/grafana/nri-numamem.json")
# Below the folder for completions of zsh, the only one that differs.
_COMPLETIONS = {
    NAME: "usr/share/bash-completion/completions",
    f"{NAME}.fish": "usr/share/fish/vendor_completions.d",
}
# No address of a person; .invalid is reserved by RFC 2606.
MAINTAINER = "nri_numamem developers <nri-numamem@nri-numamem.invalid>"
SUMMARY = "NUMA memory placement for Kubernetes containers"
DESCRIPTION = """\
A plugin of the Node Resource Interface (NRI) of containerd and CRI-O. It
places the memory and hugepages of Guaranteed containers on as few NUMA nodes
as possible, as the kubelet's Memory Manager does.

The program has Python and all libraries inside. The package starts nothing:
run nri-numamem install.
"""


def upstream_version(version: str = VERSION) -> str:
    """Return a version without a release. dpkg and rpm order 1.0~rc1 before 1.0, but not 1.0rc1."""
    return re.sub(r"(?<=\d)(a|b|rc)(?=\d)", r"~\1", version)


def deb_name(version: str = VERSION, machine: str = MACHINE) -> str:
    """Return the name of the Debian package."""
    return f"{NAME}_{upstream_version(version)}-1_{DEBIAN_ARCHITECTURES[machine]}.deb"


def rpm_name(version: str = VERSION, machine: str = MACHINE, release: str = "1") -> str:
    """Return the name of the RPM package."""
    return f"{NAME}-{upstream_version(version)}-{release}.{machine}.rpm"


def removal_script(removal: str) -> str:
    """Return the script that runs before a removal; its first argument is then `removal`."""
    return (HERE / "before-removal").read_text().replace("@REMOVAL@", removal)


def fill(root: Path, program: Path, zsh_completions: str, made_s: int) -> None:
    """Write the files that each package has below a directory; `zsh_completions` is a folder.

    Raises BuildError if the hook program of claims cannot be built.
    """
    claim_hook.build(path_of(root, HOOK).parent)
    path_of(root, CONFIGURATION).write_text(example_text())
    service = UNIT.replace(COPY, f"/{PROGRAM}")
    path_of(root, systemd.PACKAGED[0].lstrip("/")).write_text(service)
    exporter = (ROOT / "systemd" / systemd.EXPORTER).read_text().replace(COPY, f"/{PROGRAM}")
    path_of(root, f"usr/lib/systemd/system/{systemd.EXPORTER}").write_text(exporter)
    shutil.copyfile(program, path_of(root, PROGRAM))
    changes = (ROOT / "CHANGELOG.md").read_bytes()
    write_compressed(path_of(root, f"{DOCUMENTS}/changelog.gz"), changes)
    for document in sorted((ROOT / "docs").rglob("*.md")):
        inner = document.relative_to(ROOT / "docs")
        shutil.copyfile(document, path_of(root, f"{DOCUMENTS}/{inner}"))
    for source in MONITORING:
        shutil.copyfile(ROOT / source, path_of(root, f"{DOCUMENTS}/{Path(source).name}"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "write_cli_files.py"), folder]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(made_s)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        page = Path(folder, f"{NAME}.8").read_bytes()
        write_compressed(path_of(root, f"usr/share/man/man8/{NAME}.8.gz"), page)
        for name, place in {**_COMPLETIONS, f"_{NAME}": zsh_completions}.items():
            shutil.copyfile(Path(folder, "completion", name), path_of(root, f"{place}/{name}"))


def path_of(root: Path, name: str) -> Path:
    """Return the path of a file below a directory; its own directory exists then."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_compressed(path: Path, data: bytes) -> None:
    """Write a file in gzip, without a date."""
    path.write_bytes(gzip.compress(data, mtime=0))


def set_modes(root: Path, *programs: str) -> None:
    """Set the modes of everything in a directory.

    `programs` are executable, as are PROGRAM and HOOK.
    """
    executable = {root / name for name in (PROGRAM, HOOK, *programs)}
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path in executable else 0o644)


def _check_program(program: Path) -> str:
    """Return why a program cannot be packaged, or nothing."""
    if not program.exists():
        return f"{program} is missing; run: make dist"
    newest_s = max(path.stat().st_mtime for path in (ROOT / "nri_numamem").rglob("*.py"))
    if program.stat().st_mtime < newest_s:
        return f"{program} is older than the sources; run: make dist"
    return ""


def _check_hook(program: Path) -> str:
    """Return why the hook program of claims would differ from that in a program, or nothing.

    The doctor compares them.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            hook = claim_hook.build(Path(folder)).read_bytes()
    except BuildError as error:
        return str(error)
    if hook not in program.read_bytes():
        return f"{program} has another claim-hook than the sources and Go give; run: make dist"
    return ""


def run(target: str, tool: tuple[str, str], build: Callable[[Path, Path], Path]) -> int:
    """Build the package of the command line; return the exit status.

    `target` is that of make, `tool` the command that it needs and the package with it, and
    `build` writes the package of a program into a directory.
    """
    default = ROOT / "dist" / f"{NAME}-{VERSION}-linux-{MACHINE}"
    parser = argparse.ArgumentParser(
        prog=f"make {target}", description="Build a package of the single executable file."
    )
    parser.add_argument(
        "program", type=Path, nargs="?", default=default, help="the file of make dist (%(default)s)"
    )
    parser.add_argument(
        "directory", type=Path, nargs="?", default=default.parent, help="(%(default)s)"
    )
    args = parser.parse_args()
    command, package = tool
    problem = _check_program(args.program)
    if not problem and shutil.which(command) is None:
        problem = f"{command} is missing; install {package}"
    problem = problem or _check_hook(args.program)
    if problem:
        sys.stderr.write(f"make {target}: {problem}\n")
        return 1
    built = build(args.program, args.directory)
    sys.stdout.write(f"{hashlib.sha256(built.read_bytes()).hexdigest()}  {built}\n")
    return 0
