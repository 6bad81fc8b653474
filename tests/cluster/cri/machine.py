"""The virtual machine of these tests: Debian sid with containerd, CRI-O, and a device on a node.

Machine, image and the framework of the guest are those of tests/e2e. The device is a virtio console
on a PCI root bus of its own, for which the firmware reports a NUMA node.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.cri.guest import scenarios_cdi
from tests.cluster.kubernetes import programs
from tests.e2e import artefact_builds, image, runs, vm

_SUITE = "sid"
_IMAGE = image.Variant("cri", ("conmon", "crun", "skopeo"))
_OUT = runs.ROOT / "build" / "cri"
_GUEST = Path(__file__).parent / "guest"
_SERVICE = "tests/e2e/guest/e2e.service"

_DEVICE = (
    *("-device", f"pxb,id=pxb,bus=pci.0,bus_nr=128,numa_node={scenarios_cdi.DEVICE_NODE}"),
    *("-device", "virtio-serial-pci,id=accelerator,bus=pxb", "-chardev", "null,id=accelerator"),
    "-device",
    f"virtserialport,bus=accelerator.0,chardev=accelerator,name={scenarios_cdi.PORT}",
)


def run(phases: Iterable[str]) -> runs.SuiteReport:
    """Boot the machine with the phases of these names; build what is missing."""
    _OUT.mkdir(parents=True, exist_ok=True)
    artefacts = artefact_builds.programs(_OUT / "packages")
    artefacts |= {"crio": programs.built(programs.CRIO), "pinns": _pinns()}
    files = runs.drive_files(artefacts, phases, _OUT)
    files |= {str(path.relative_to(runs.ROOT)): path for path in _GUEST.glob("*.py")}
    files[_SERVICE] = _service()
    drive = _OUT / "drive.tar"
    vm.write_drive(drive, files)
    return runs.run(_SUITE, drive, _OUT, (*vm.NO_NETWORK, *_DEVICE), _IMAGE)


def _pinns() -> Path:
    """Compile CRI-O's helper, which keeps the namespaces of pods; return its path."""
    sources = programs.source_folder(programs.CRIO) / "pinns" / "src"
    path = _OUT / "pinns"
    files = sorted(str(file) for file in sources.glob("*.c"))
    subprocess.run(["cc", "-std=c99", "-O2", "-o", str(path), *files], check=True)
    return path


def _service() -> Path:
    """Write the service of tests/e2e with the main program of these tests; return its path."""
    text = (runs.ROOT / _SERVICE).read_text(encoding="utf-8")
    path = _OUT / "e2e.service"
    path.write_text(text.replace("tests.e2e.guest.main", "tests.cluster.cri.guest.main"))
    return path
