"""The virtual machine of these tests: Debian sid with the newest containerd and runc."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.kubernetes import programs
from tests.features.guest import phases
from tests.machines import artefact_builds, vm
from tests.machines.image import CRI
from tests.machines.progress import Progress
from tests.machines.suite import Contents, Suite, checks_of


@contextmanager
def _contents(names: Sequence[str], progress: Progress) -> Iterator[Contents]:
    artefacts = artefact_builds.programs(SUITE.out / "packages", progress)
    artefacts |= {each.name: programs.built(each, progress) for each in programs.RUNTIMES}
    devices = [device for phase in phases.PHASES if phase.name in names for device in phase.devices]
    yield Contents(artefacts, (*vm.NO_NETWORK, *devices))


SUITE = Suite(
    name="features",
    guest=Path(__file__).parent / "guest",
    checks=checks_of(phases.PHASES),
    contents=_contents,
    minutes=30,
    variant=CRI,
    builds=tuple(programs.build(each) for each in programs.RUNTIMES),
)
