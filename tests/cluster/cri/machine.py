"""The virtual machine of these tests: Debian sid, container runtimes, and a device on a node.

Machine, image and the framework of the guest are those of tests/e2e.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import boot
from tests.cluster.cri.guest import scenarios_cdi
from tests.cluster.kubernetes import programs
from tests.e2e import artefact_builds, runs, vm

_SUITE = "sid"
_OUT = runs.ROOT / "build" / "cri"
_GUEST = Path(__file__).parent / "guest"


def run(phases: Iterable[str]) -> runs.SuiteReport:
    """Boot the machine with the phases of these names; build what is missing."""
    _OUT.mkdir(parents=True, exist_ok=True)
    artefacts = artefact_builds.programs(_OUT / "packages")
    artefacts |= {"crio": programs.built(programs.CRIO), "pinns": _pinns()}
    drive = boot.write_drive(artefacts, phases, _OUT, _GUEST)
    device = boot.accelerator(scenarios_cdi.DEVICE_NODE, scenarios_cdi.PORT)
    return runs.run(_SUITE, drive, _OUT, (*vm.NO_NETWORK, *device), boot.CRI_IMAGE)


def _pinns() -> Path:
    """Compile CRI-O's helper, which keeps the namespaces of pods; return its path."""
    sources = programs.source_folder(programs.CRIO) / "pinns" / "src"
    path = _OUT / "pinns"
    files = sorted(str(file) for file in sources.glob("*.c"))
    subprocess.run(["cc", "-std=c99", "-O2", "-o", str(path), *files], check=True)
    return path
