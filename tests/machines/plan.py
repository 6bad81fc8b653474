"""What a run of suites has to build, what is cached, and about how long all takes.

    python -m tests.machines.plan tests.features.machine ...

prints it for the SUITE of each of these modules.
"""

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module

from tests.machines import artefact_builds, image
from tests.machines.progress import Build
from tests.machines.suite import Suite


def lines(suites: Iterable[Suite], phases: dict[str, int]) -> Iterator[str]:
    """Yield what the suites need, and a sum; `phases` has the number of phases of each suite."""
    suites = list(suites)
    total = 0.0
    for build in _builds(suites):
        is_cached = build.is_cached()
        total += 0 if is_cached else build.minutes
        yield f"{build.name}: {'ready' if is_cached else f'to build, about {build.minutes:g} min'}"
    for suite in suites:
        count = phases[suite.name]
        minutes = suite.minutes * count / len(suite.checks)
        total += minutes
        where = " and ".join(suite.systems)
        yield f"{suite.name}: {count} phases on machines of {where}, about {minutes:.0f} min"
    yield f"in all about {total:.0f} min on two idle processors"


def _builds(suites: Iterable[Suite]) -> list[Build]:
    """Return what the suites need, each thing once."""
    found = {artefact_builds.SINGLE_FILE.name: artefact_builds.SINGLE_FILE}
    for suite in suites:
        for system in suite.systems:
            needed = image.build(system, suite.variant)
            found[needed.name] = needed
        found |= {each.name: each for each in suite.builds}
    return list(found.values())


def main(modules: list[str]) -> int:
    """Print the plan of all phases."""
    suites: list[Suite] = [import_module(name).SUITE for name in modules]
    for line in lines(suites, {suite.name: len(suite.checks) for suite in suites}):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
