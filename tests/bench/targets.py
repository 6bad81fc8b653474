"""The budget: upper limits on the benchmark's numbers. This is the only place that has them.

The budget buys readable code: a container start takes hundreds of milliseconds, of which a user
feels neither ten microseconds nor ten megabytes.
"""

from dataclasses import dataclass

from tests.bench.creation import CASES, EMPTY
from tests.bench.report import Target

# CreateContainer p50 of nri-plugins' topology-aware policy and of the do-nothing Go plugin,
# measured once on another machine (docs/benchmark.md, "topology-aware"). Only their ratio is used,
# because microseconds of two machines cannot be compared.
TOPOLOGY_AWARE_P50_US, DO_NOTHING_P50_US = 3575, 295
TOPOLOGY_AWARE_TO_DO_NOTHING = TOPOLOGY_AWARE_P50_US / DO_NOTHING_P50_US

CREATE_LIMITS = {"p50": 2.0, "p99": 1.5}


@dataclass(frozen=True, slots=True)
class PathLimit:
    """Upper limits on a traced path (trace.py), which a reader has to follow."""

    calls: int
    files: int
    file_changes: int


# Request -> limits before the reply, and from there to the next wait: the present figures on Python
# 3.11. Lower them when a path gets shorter.
MAX_PATH = {
    "simple": (PathLimit(69, 24, 35), PathLimit(133, 44, 80)),
    "with CPUs": (PathLimit(165, 29, 64), PathLimit(141, 45, 83)),
    "pod scope": (PathLimit(154, 34, 86), PathLimit(150, 44, 88)),
}

TO_TOPOLOGY_AWARE = "create_p50_to_topology_aware"

TARGETS = (
    *(
        Target(case.key(what), f"CreateContainer {what} to (a): {case.label}", limit)
        for case in CASES
        for what, limit in CREATE_LIMITS.items()
    ),
    Target(
        TO_TOPOLOGY_AWARE,
        f"CreateContainer p50 to topology-aware as measured elsewhere: {EMPTY.label}",
        0.2,
    ),
    Target("synchronize_5000_s", "Synchronize with 5,000 containers", 0.5, "s"),
    Target("rss_idle_mib", "resident memory after the start", 36.0, "MiB"),
    Target("rss_500_pods_mib", "resident memory after 500 pods", 36.0, "MiB"),
    Target("wakeups_per_s", "wake-ups when idle, with observer", 1.0, "per s"),
    Target("wakeups_per_s_launched", "wake-ups when idle, launched, with supervisor", 1.0, "per s"),
    Target("start_s", "exec to registered", 0.5, "s"),
    Target("single_file_mb", "size of the single file", 30.0, "MB"),
    Target("single_file_start_s", "the single file: exec to registered", 0.35, "s"),
    Target("single_file_create_p50", "the single file: CreateContainer p50 to (a)", 2.0),
    Target("single_file_create_p99", "the single file: CreateContainer p99 to (a)", 1.5),
    Target("placement_8_nodes", "placement at 8 nodes, p50 to (b), the worst case", 1.0),
    Target("placement_8_nodes_p99", "placement at 8 nodes, p99 to (b), the worst case", 1.0),
    Target("growth_nodes_p50", "exponent of placement's growth with nodes, p50", 3.0),
    Target("growth_nodes_p99", "exponent of placement's growth with nodes, p99", 3.0),
    Target("growth_pods_p50", "exponent of placement's growth with pods, p50", 1.0),
    Target("growth_pods_p99", "exponent of placement's growth with pods, p99", 1.0),
    Target("disturbed_p99", "p99 disturbed to undisturbed", 2.0),
)


def to_topology_aware(to_do_nothing: float) -> float:
    """Return the ratio to topology-aware from the one to the do-nothing plugin, same case."""
    return to_do_nothing / TOPOLOGY_AWARE_TO_DO_NOTHING
