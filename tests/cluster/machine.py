"""The virtual machine of these tests: Debian sid with containerd, the plugin and the kubelet.

Image, machine and the framework of the guest are those of tests/e2e.
"""

from collections.abc import Iterable
from pathlib import Path

from tests.cluster.kubernetes import programs
from tests.e2e import artefact_builds, runs, vm

_SUITE = "sid"
_OUT = runs.ROOT / "build" / "cluster"
_GUEST = Path(__file__).parent / "guest"
_SERVICE = "tests/e2e/guest/e2e.service"

# The guest reaches the host's loopback interface at 10.0.2.2.
_NETWORK = ("-netdev", "user,id=network", "-device", "virtio-net-pci,netdev=network,romfile=")


def run(phases: Iterable[str]) -> runs.SuiteReport:
    """Boot the machine with these phases; build what is missing."""
    _OUT.mkdir(parents=True, exist_ok=True)
    artefacts = artefact_builds.programs(_OUT / "packages")
    artefacts["kubelet"] = programs.built(programs.KUBELET)
    files = runs.drive_files(artefacts, sorted(phases), _OUT)
    files |= {str(path.relative_to(runs.ROOT)): path for path in _GUEST.glob("*.py")}
    files[_SERVICE] = _service()
    drive = _OUT / "drive.tar"
    vm.write_drive(drive, files)
    return runs.run(_SUITE, drive, _OUT, _NETWORK)


def _service() -> Path:
    """Write the service of tests/e2e with the main program of these tests; return its path."""
    text = (runs.ROOT / _SERVICE).read_text(encoding="utf-8")
    path = _OUT / "e2e.service"
    path.write_text(text.replace("tests.e2e.guest.main", "tests.cluster.guest.main"))
    return path
