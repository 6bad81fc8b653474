"""All phases and their checks; the guest runs them, and the host expects a report of each."""

from tests.cluster.guest import (
    scenarios_connection,
    scenarios_cpus,
    scenarios_dra,
    scenarios_journal,
    scenarios_placement,
    scenarios_rejection,
    scenarios_resize,
    scenarios_restarts,
)
from tests.cluster.guest.checks import Phase

PHASES = (
    Phase(
        "standalone",
        (
            scenarios_connection.OPENING,
            scenarios_placement.PLACEMENT,
            scenarios_rejection.REJECTION,
            scenarios_restarts.CRASH,
            scenarios_restarts.RESTARTS,
            scenarios_journal.JOURNAL,
            scenarios_connection.CLOSING,
        ),
    ),
    Phase(
        "static-cpus",
        (scenarios_connection.OPENING, scenarios_cpus.CPUS, scenarios_connection.CLOSING),
        kubelet=scenarios_cpus.SETTINGS,
    ),
    Phase(
        "api-server",
        (
            scenarios_connection.OPENING,
            scenarios_resize.RESIZE,
            scenarios_dra.DRA,
            scenarios_connection.CLOSING,
        ),
        cgroup_driver="cgroupfs",
        has_api_server=True,
    ),
)


def names() -> list[tuple[str, str]]:
    """Return (phase, check) of every report of a complete run."""
    return [(phase.name, check.name) for phase in PHASES for check in phase.checks]
