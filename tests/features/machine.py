"""The virtual machine of these tests: Debian sid with the newest containerd and runc.

Image, machine and the framework of the guest are those of tests/e2e and tests/cluster.
"""

from collections.abc import Iterable
from pathlib import Path

from tests.cluster import boot
from tests.cluster.kubernetes import programs
from tests.e2e import artefact_builds, runs, vm
from tests.features.guest import phases

_SUITE = "sid"
_OUT = runs.ROOT / "build" / "features"
_GUEST = Path(__file__).parent / "guest"


def run(names: Iterable[str]) -> runs.SuiteReport:
    """Boot the machine with the phases of these names; build what is missing."""
    _OUT.mkdir(parents=True, exist_ok=True)
    selected = [phase for phase in phases.PHASES if phase.name in set(names)]
    artefacts = artefact_builds.programs(_OUT / "packages")
    artefacts |= {program.name: programs.built(program) for program in programs.RUNTIMES}
    drive = boot.write_drive(artefacts, [phase.name for phase in selected], _OUT, _GUEST)
    devices = tuple(argument for phase in selected for argument in phase.devices)
    return runs.run(_SUITE, drive, _OUT, (*vm.NO_NETWORK, *devices), boot.CRI_IMAGE)
