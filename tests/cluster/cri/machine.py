"""The virtual machine of these tests: Debian sid, container runtimes, and a device on a node."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.cri.guest import phases, scenarios_cdi
from tests.cluster.kubernetes import programs
from tests.machines import artefact_builds, vm
from tests.machines.image import CRI
from tests.machines.progress import Progress
from tests.machines.suite import Contents, Suite, checks_of


@contextmanager
def _contents(_names: Sequence[str], progress: Progress) -> Iterator[Contents]:
    artefacts = artefact_builds.programs(SUITE.out / "packages", progress)
    artefacts |= {"crio": programs.built(programs.CRIO, progress), "pinns": pinns(SUITE.out)}
    device = vm.accelerator(scenarios_cdi.DEVICE_NODE, scenarios_cdi.PORT)
    yield Contents(artefacts, (*vm.NO_NETWORK, *device))


def pinns(folder: Path) -> Path:
    """Compile CRI-O's helper, which keeps the namespaces of pods; return its path in a folder."""
    sources = programs.source_folder(programs.CRIO) / "pinns" / "src"
    path = folder / "pinns"
    files = sorted(str(file) for file in sources.glob("*.c"))
    subprocess.run(["cc", "-std=c99", "-O2", "-o", str(path), *files], check=True)
    return path


SUITE = Suite(
    name="cri",
    guest=Path(__file__).parent / "guest",
    checks=checks_of(phases.PHASES),
    contents=_contents,
    minutes=6,
    variant=CRI,
    builds=(programs.build(programs.CRIO),),
)
