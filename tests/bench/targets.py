"""What the plugin has to reach, as limits on the benchmark's numbers."""

from tests.bench.report import Target
from tests.bench.sections import CASES

TARGETS = (
    *(
        Target(case.key(what), f"CreateContainer {what} to (a): {case.words}", 1.0)
        for case in CASES
        for what in ("p50", "p99")
    ),
    Target("synchronize_5000_s", "Synchronize with 5,000 containers", 0.5, "s"),
    Target("rss_idle", "resident memory after the start, to (a)", 1.6),
    Target("rss_500_pods", "resident memory after 500 pods, to (a)", 1.6),
    Target("wakeups_per_s", "wake-ups when idle", 1.0, "per s"),
    Target("wakeups_per_s_launched", "wake-ups when idle, launched, with keeper", 1.0, "per s"),
    Target("start_s", "exec to registered", 0.3, "s"),
    Target("placement_8_nodes", "placement at 8 nodes, p50 to (b), the worst case", 1.0),
    Target("placement_8_nodes_p99", "placement at 8 nodes, p99 to (b), the worst case", 1.0),
    Target("growth_nodes_p50", "exponent of placement's growth with nodes, p50", 3.0),
    Target("growth_nodes_p99", "exponent of placement's growth with nodes, p99", 3.0),
    Target("growth_pods_p50", "exponent of placement's growth with pods, p50", 1.0),
    Target("growth_pods_p99", "exponent of placement's growth with pods, p99", 1.0),
    Target("disturbed_p99", "p99 disturbed to undisturbed", 2.0),
)
