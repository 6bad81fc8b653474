"""The virtual machines of these tests: Debian trixie and sid, with their containerd."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.guest import phases
from tests.machines import artefact_builds
from tests.machines.progress import Progress
from tests.machines.suite import Contents, Suite, checks_of


@contextmanager
def _contents(_names: Sequence[str], progress: Progress) -> Iterator[Contents]:
    yield Contents(artefact_builds.all_artefacts(SUITE.out, progress))


SUITE = Suite(
    name="e2e",
    guest=Path(__file__).parent / "guest",
    checks=checks_of(phases.PHASES),
    contents=_contents,
    minutes=15,
    systems=("trixie", "sid"),
)
