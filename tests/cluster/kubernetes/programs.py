"""Build programs from Go modules: Kubernetes' own, container runtimes, NFD's topology updater.

`server/` pins one Kubernetes version for kubelet and API server, `controllers/` the same one for
kube-controller-manager and kube-scheduler. `topology_scheduler/` is a kube-scheduler with the
plugin NodeResourceTopologyMatch, which pins a Kubernetes version of its own. `crio/` pins CRI-O,
which needs a C compiler and SQLite. `runtimes/` pins containerd, and runc, which needs a C
compiler and libseccomp. `topology_updater/` pins the topology updater of Node Feature Discovery;
`nfd_api/` stands for a module that is required and not used there. Programs are kept in
${XDG_CACHE_HOME:-~/.cache}/nri_numamem/kubernetes by a hash of their inputs.

    python -m tests.cluster.kubernetes.programs [NAME]...

builds those that are missing, all by default, and prints where they are and what the build took.
"""

import fcntl
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.go_runtime import go_program
from tests.machines.progress import Build, Progress

HERE = Path(__file__).parent
_KEY_LENGTH = 16
_KUBERNETES = "k8s.io/kubernetes"
_CRIO = "github.com/cri-o/cri-o"
_NFD = "sigs.k8s.io/node-feature-discovery"
# Without these, CRI-O needs libraries of C besides SQLite.
_CRIO_TAGS = "containers_image_openpgp exclude_graphdriver_btrfs btrfs_noversion libsqlite3"
_CONTAINERD = "github.com/containerd/containerd/v2"
# The snapshotters that no test uses, and the traces.
_CONTAINERD_TAGS = "no_btrfs no_devmapper no_zfs no_aufs no_tracing urfave_cli_no_docs"
_CONTAINERD_VERSION = f" -X {_CONTAINERD}/version.Version={{version}}"
_RUNC = "github.com/opencontainers/runc"


@dataclass(frozen=True, slots=True)
class Program:
    """A program and the folder of the Go module that pins its dependencies.

    Its version is that of the required module `source`. `values` are those of variables, as options
    of Go's linker; "{version}" in them is the version.
    """

    name: str
    module: Path
    package: str
    source: str = _KUBERNETES
    tags: str = ""
    values: str = ""
    uses_cgo: bool = False
    minutes: float = 3
    """About how long the first build takes on two processors."""


KUBELET = Program("kubelet", HERE / "server", f"{_KUBERNETES}/cmd/kubelet", minutes=7)
API_SERVER = Program("kube-apiserver", HERE / "server", f"{_KUBERNETES}/cmd/kube-apiserver")
CONTROLLER_MANAGER = Program(
    "kube-controller-manager", HERE / "controllers", f"{_KUBERNETES}/cmd/kube-controller-manager"
)
SCHEDULER = Program("kube-scheduler", HERE / "controllers", f"{_KUBERNETES}/cmd/kube-scheduler")
TOPOLOGY_SCHEDULER = Program("topology-scheduler", HERE / "topology_scheduler", ".", minutes=5)
CRIO = Program("crio", HERE / "crio", f"{_CRIO}/cmd/crio", _CRIO, _CRIO_TAGS, uses_cgo=True)


def _of_containerd(name: str) -> Program:
    package = f"{_CONTAINERD}/cmd/{name}"
    module = HERE / "runtimes"
    return Program(name, module, package, _CONTAINERD, _CONTAINERD_TAGS, _CONTAINERD_VERSION)


CONTAINERD = _of_containerd("containerd")
CONTAINERD_SHIM = _of_containerd("containerd-shim-runc-v2")
RUNC = Program("runc", HERE / "runtimes", _RUNC, _RUNC, "seccomp", uses_cgo=True)
# It reads host-sys in its working directory instead of /sys.
_NFD_PREFIX = f" -X {_NFD}/pkg/utils/hostpath.pathPrefix=host-"
TOPOLOGY_UPDATER = Program(
    "nfd-topology-updater",
    HERE / "topology_updater",
    f"{_NFD}/cmd/nfd-topology-updater",
    _NFD,
    values=_NFD_PREFIX,
)
RUNTIMES = (CONTAINERD, CONTAINERD_SHIM, RUNC)
CONTROL_PLANE = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER)
_ALL = (KUBELET, *CONTROL_PLANE, TOPOLOGY_SCHEDULER, CRIO, *RUNTIMES, TOPOLOGY_UPDATER)
PROGRAMS = {program.name: program for program in _ALL}


def build(program: Program) -> Build:
    """Return what `built` may have to build."""

    def is_cached() -> bool:
        go = go_program()
        return go is not None and _file(go, program).exists()

    return Build(f"{program.name} {version_of(program)}", program.minutes, is_cached)


def built(program: Program, progress: Progress | None = None) -> Path:
    """Return the program's file; build it unless the cache has it.

    A build removes the program's older files. Raises RuntimeError with Go's output, or when Go is
    missing.
    """
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing; run tests/conformance/install-tools")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    file = _file(go, program)
    with _lock(cache / f"{program.name}.lock"):
        if file.exists():
            return file
        for old in cache.glob(f"{program.name}-{'?' * _KEY_LENGTH}"):
            shutil.rmtree(old)
        new = cache / f"{program.name}.new"
        with (progress or Progress(sys.stderr)).step(build(program).name, program.minutes):
            _run_go(go, program, "build", *_options(program), "-o", str(new), program.package)
        file.parent.mkdir()
        new.rename(file)
    return file


def version_of(program: Program) -> str:
    """Return the version of its source that the program's module pins, such as "v1.37.1"."""
    pattern = rf"^\s*(?:require )?{re.escape(program.source)} (v\S+)"
    found = re.search(pattern, (program.module / "go.mod").read_text(), re.MULTILINE)
    assert found, f"{program.module}/go.mod requires no {program.source}"
    return found[1]


def source_folder(program: Program) -> Path:
    """Return the folder of the sources that `built` has used."""
    go = go_program()
    assert go is not None
    return Path(_run_go(go, program, "list", "-m", "-f", "{{.Dir}}", program.source).strip())


def _options(program: Program) -> tuple[str, ...]:
    # Without a version Kubernetes' programs call themselves v0.0.0-master.
    version = version_of(program)
    values = f"-X k8s.io/component-base/version.gitVersion={version}"
    linker = f"-ldflags=-s -w {values}{program.values.format(version=version)}"
    options = ("-mod=readonly", "-buildvcs=false", "-trimpath", linker)
    return (*options, f"-tags={program.tags}") if program.tags else options


def _file(go: str, program: Program) -> Path:
    return _cache() / f"{program.name}-{_key(go, program)}" / program.name


def _key(go: str, program: Program) -> str:
    inputs = [_run_go(go, program, "version"), program.package, *_options(program)]
    inputs += [file.read_text() for file in sorted(program.module.iterdir())]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:_KEY_LENGTH]


def _run_go(go: str, program: Program, *arguments: str) -> str:
    done = subprocess.run(
        [go, *arguments],
        cwd=program.module,
        env=_environment(os.environ, cgo=program.uses_cgo),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} does not build:\n{done.stdout}{done.stderr}")
    return done.stdout


def _environment(inherited: Mapping[str, str], *, cgo: bool) -> dict[str, str]:
    """Return Go's environment; an older Go fetches the version that the module requires."""
    return {"GOTOOLCHAIN": "auto", **inherited, "CGO_ENABLED": str(int(cgo))}


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nri_numamem" / "kubernetes"


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(names: list[str]) -> int:
    """Build the programs with these names, all without names."""
    progress = Progress(sys.stdout)
    for name in names or PROGRAMS:
        began_s, cpu_s = time.monotonic(), _cpu_s()
        file = built(PROGRAMS[name], progress)
        took = f"{time.monotonic() - began_s:.0f} s, {_cpu_s() - cpu_s:.0f} s of CPU time"
        print(f"{name} {version_of(PROGRAMS[name])}: {file} ({took})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
