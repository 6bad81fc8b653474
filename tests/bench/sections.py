"""The sections of the benchmark: each measures, stores the numbers, and returns its table.

This module names the numbers; the modules named after a measurement take it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tests.bench import (
    beside_requests,
    creation,
    disturbance,
    enumeration,
    features,
    resident_memory,
    single_file,
    stages,
    startup_and_idle,
    synchronization,
)
from tests.bench.creation import CASES, CONSTANT, EMPTY, NEWEST, OURS, PEERS, QUICK_CASES, Case
from tests.bench.enumeration import ENUMERATED, HALF_FULL, WITHOUT_PAGES
from tests.bench.figures import Summary
from tests.bench.host import MI, Programs
from tests.bench.report import Results
from tests.bench.targets import TO_TOPOLOGY_AWARE, to_topology_aware
from tests.packaging.single_file_program import PROGRAM, build_problem

# A full enumeration of 64 nodes has 2 ** 64 steps.
MOST_ENUMERATED_NODES = 8

PLACEMENT_NODES = (2, 4, 8, 16, 32, 64)
PLACEMENT_TARGET_NODES = 8

SINGLE_FILE_IDLE_S = 5.0

Table = list[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    cases: Sequence[Case] = CASES
    rounds: int = 10
    count: int = 1000
    """Creations per round."""
    paced_count: int = 200
    feature_count: int = features.CREATIONS
    """Creations per round, with each feature."""
    synchronize_containers: Sequence[int] = synchronization.CONTAINERS
    synchronize_rounds: int = 5
    starts: int = 10
    idle_s: float = 60.0
    placement_nodes: Sequence[int] = PLACEMENT_NODES


QUICK = Size(
    cases=QUICK_CASES,
    rounds=2,
    count=100,
    paced_count=50,
    feature_count=50,
    synchronize_containers=(110, 1000),
    synchronize_rounds=1,
    starts=2,
    idle_s=5.0,
    placement_nodes=(2, 8, 64),
)


@dataclass(frozen=True, slots=True)
class Bench:
    """Parameters of a section: programs by NRI version, amount of work, destination of numbers."""

    programs: Mapping[str, Programs]
    size: Size
    results: Results
    progress: Callable[[str], None]

    @property
    def newest(self) -> Programs:
        """The programs of the newest NRI version."""
        return self.programs[NEWEST]


def creations(bench: Bench) -> Table:
    """Measure CreateContainer from the runtime to a plugin and back."""
    ratios = bench.results.ratios
    figures: dict[str, object] = {}
    rows: Table = [("case", "(a)", "(b)", "ours", "p50 to (a)", "p99 to (a)")]
    for case in bench.size.cases:
        bench.progress(f"CreateContainer: {case.label}")
        found = creation.measure(
            case,
            bench.programs[case.version],
            peers=PEERS if case.nodes <= MOST_ENUMERATED_NODES else (CONSTANT, OURS),
            rounds=bench.size.rounds,
            count=bench.size.paced_count if case.gap_us else bench.size.count,
        )
        ours, peer = found[OURS], found[CONSTANT]
        ratios[case.key("p50")] = p50 = ours.p50_s / peer.p50_s
        ratios[case.key("p99")] = p99 = ours.p99_s / peer.p99_s
        figures[case.label] = {name: times.as_us() for name, times in found.items()}
        cells = (_times(found.get(name)) for name in PEERS)
        rows.append((case.label, *cells, f"{p50:.2f}", f"{p99:.2f}"))
    ratios[TO_TOPOLOGY_AWARE] = to_topology_aware(ratios[EMPTY.key("p50")])
    bench.results.figures["create"] = figures
    return rows


def synchronizations(bench: Bench) -> Table:
    """Measure Synchronize."""
    figures = bench.results.figures
    rows: Table = [("containers", "(a)", "(b)", "ours", "ours less (a)")]
    for containers in bench.size.synchronize_containers:
        bench.progress(f"Synchronize: {containers} containers")
        found = synchronization.measure(
            bench.newest, containers, rounds=bench.size.synchronize_rounds
        )
        key = f"synchronize_{containers}"
        own_s = found[OURS] - found[CONSTANT]
        figures[f"{key}_s"], figures[f"{key}_peers_s"] = found[OURS], found
        figures[f"{key}_own_s"] = own_s
        cells = (f"{found[name] * 1000:.0f} ms" for name in PEERS)
        rows.append((f"{containers}", *cells, f"{own_s * 1000:.0f} ms"))
    return rows


def startup_and_idleness(bench: Bench) -> Table:
    """Measure starts, resident memory and idle usage."""
    results, size = bench.results, bench.size
    bench.progress("starts")
    starts = startup_and_idle.measure_starts(bench.newest, rounds=size.starts)
    bench.progress(f"idle for {size.idle_s:.0f} s")
    idle = startup_and_idle.measure_idle(bench.newest, idle_s=size.idle_s)
    peer, ours, launched = idle[CONSTANT], idle[OURS], idle[startup_and_idle.LAUNCHED]
    observer, supervisor = idle[startup_and_idle.OBSERVER], idle[startup_and_idle.SUPERVISOR]
    results.ratios["rss_idle"] = ours.rss_bytes / peer.rss_bytes
    results.ratios["rss_500_pods"] = ours.rss_filled_bytes / peer.rss_filled_bytes
    results.figures |= {
        "rss_idle_mib": ours.rss_bytes / MI,
        "rss_500_pods_mib": ours.rss_filled_bytes / MI,
        "start_s": starts[OURS].registered_s,
        "ready_s": starts[OURS].ready_s,
        "cpu_s_idle_minute": ours.idle_cpu_s,
        "wakeups_per_s": ours.wakeups_per_s + observer.wakeups_per_s,
        "wakeups_per_s_launched": launched.wakeups_per_s + supervisor.wakeups_per_s,
        "starts": {name: asdict(start) for name, start in starts.items()},
        "startup_and_idle": {name: asdict(each) for name, each in idle.items()},
    }
    names, no_others = (CONSTANT, OURS), ("", "", "")
    each = [idle[CONSTANT], ours, observer, launched, supervisor]
    return [
        ("what", "(a)", "ours", "its observer", "ours, launched", "its supervisor"),
        ("exec to registered", *(f"{starts[n].registered_s:.3f} s" for n in names), *no_others),
        ("exec to synchronized", *(f"{starts[n].ready_s:.3f} s" for n in names), *no_others),
        ("resident after the start", *(f"{one.rss_bytes / MI:.1f} MiB" for one in each)),
        (
            f"resident after {startup_and_idle.PODS} pods",
            *(f"{idle[n].rss_filled_bytes / MI:.1f} MiB" for n in names),
            *no_others,
        ),
        ("CPU time of an idle minute", *(f"{one.idle_cpu_s:.2f} s" for one in each)),
        ("wake-ups per idle second", *(f"{one.wakeups_per_s:.2f}" for one in each)),
    ]


def single_executable(bench: Bench) -> Table:
    """Measure the file of `make dist`, if it is there and up to date."""
    size, results = bench.size, bench.results
    problem = build_problem(PROGRAM)
    if problem:
        return [("not measured",), (problem,)]
    bench.progress(f"the single file, {PROGRAM.name}")
    found = single_file.measure(
        PROGRAM,
        bench.newest.go,
        starts=size.starts,
        idle_s=min(size.idle_s, SINGLE_FILE_IDLE_S),
        rounds=size.rounds,
        count=size.count,
    )
    ours, peer, idle = found.creations[OURS], found.creations[CONSTANT], found.idle
    memory = {name: used.rss_bytes / MI for name, used in idle.items()}
    service = memory[OURS] + memory[startup_and_idle.OBSERVER]
    launched = memory[startup_and_idle.LAUNCHED] + memory[startup_and_idle.SUPERVISOR]
    results.figures |= {
        "single_file_mb": found.size_bytes / 1e6,
        "single_file_start_s": found.start_s,
        "single_file_cold_start_s": found.cold_start_s,
        "single_file_launched_mib": launched,
        "single_file_service_mib": service,
    }
    results.ratios["single_file_create_p50"] = ours.p50_s / peer.p50_s
    results.ratios["single_file_create_p99"] = ours.p99_s / peer.p99_s
    return [
        ("what", "measured"),
        ("size", f"{found.size_bytes / 1e6:.1f} MB"),
        ("exec to registered", f"{found.start_s:.3f} s"),
        ("the same, the file not in the page cache", f"{found.cold_start_s:.3f} s"),
        ("resident, launched, with supervisor", f"{launched:.1f} MiB"),
        ("resident, as a service, with observer", f"{service:.1f} MiB"),
        ("resident, (a)", f"{memory[CONSTANT]:.1f} MiB"),
        (f"CreateContainer, {single_file.CASE.label}", _times(ours)),
        ("CreateContainer, (a)", _times(peer)),
    ]


def placements(bench: Bench) -> Table:
    """Measure placement alone, and how its time grows."""
    ratios, figures = bench.results.ratios, bench.results.figures
    compared: list[enumeration.Compared] = []
    for fill in enumeration.FILLS:
        for request in ENUMERATED:
            for nodes in bench.size.placement_nodes:
                bench.progress(f"placement: {nodes} nodes, {fill}, {request}")
                compared.append(enumeration.compare(bench.newest.go, nodes, fill, request))
    bench.progress("placement: growth")
    usual = [one for one in compared if (one.fill, one.kind) == (HALF_FULL, WITHOUT_PAGES)]
    figures |= enumeration.growth(usual)
    figures["placement"] = [asdict(one) for one in compared]
    at_8 = [one.ratios for one in compared if one.nodes == PLACEMENT_TARGET_NODES]
    # No case is the usual one, so the worst counts.
    ratios[f"placement_{PLACEMENT_TARGET_NODES}_nodes"] = max(p50 for p50, _ in at_8)
    ratios[f"placement_{PLACEMENT_TARGET_NODES}_nodes_p99"] = max(p99 for _, p99 in at_8)
    head = ("nodes", "allocations", "request", "enumeration", "ours", "p50 to (b)", "p99 to (b)")
    return [head, *(_placement_row(one) for one in compared)]


def _placement_row(one: enumeration.Compared) -> Sequence[str]:
    where = (f"{one.nodes}", one.fill, one.kind)
    if one.enumeration is None:
        return (*where, "not possible", _times(one.ours), "", "")
    p50, p99 = one.ratios
    cells = (_times(one.enumeration), _times(one.ours))
    return (*where, *cells, _ratio(p50), _ratio(p99))


def disturbances(bench: Bench) -> Table:
    """Measure CreateContainer while the plugin has other work."""
    bench.progress("disturbance")
    found = disturbance.measure(bench.newest, rounds=bench.size.rounds, count=bench.size.count)
    calm, other = found.undisturbed, found.disturbed
    bench.results.ratios["disturbed_p50"] = other.p50_s / calm.p50_s
    bench.results.ratios["disturbed_p99"] = other.p99_s / calm.p99_s
    bench.results.figures["disturbance"] = asdict(found)
    what = f"{found.scrapes} scrapes, {found.uevents} uevents, state file"
    return [
        ("what", "CreateContainer"),
        ("undisturbed, no state file", _times(calm)),
        (what, _times(other)),
    ]


def creation_stages(bench: Bench) -> Table:
    """Measure where the time of a creation goes."""
    bench.progress("stages of a creation")
    found = stages.measure(bench.size.count)
    bench.results.figures["stages_us"] = {stage: spent_s * 1e6 for stage, spent_s in found.items()}
    return stages.rows(found)


def creations_with_features(bench: Bench) -> Table:
    """Measure a pod's start and a creation with each feature that is off by default."""
    bench.progress("features")
    size = bench.size
    found = features.measure(size.rounds, size.feature_count)
    off = found[features.ALL_OFF.label]
    bench.results.figures["features"] = {label: each._asdict() for label, each in found.items()}
    bench.results.ratios |= {
        f"feature {label}": each.before_s / off.before_s for label, each in found.items()
    }
    return features.rows(found)


def work_beside_requests(bench: Bench) -> Table:
    """Measure what features do beside the requests."""
    bench.progress("features, beside the requests")
    found = beside_requests.residency(bench.size.rounds)
    used = beside_requests.helper(bench.size.rounds * 10)
    bench.results.figures["residency"] = asdict(found)
    if used is not None:
        bench.results.figures["network_helper"] = asdict(used)
    return beside_requests.rows(found, used)


def resident_memory_steps(bench: Bench) -> Table:
    """Measure the parts of the resident memory."""
    bench.progress("resident memory, step by step")
    found = resident_memory.measure(bench.newest.plugin)
    bench.results.figures["resident_bytes"] = found
    return resident_memory.rows(found)


SECTIONS: Mapping[str, Callable[[Bench], Table]] = {
    "CreateContainer, round trip (p50 / p99 / max)": creations,
    "Synchronize": synchronizations,
    "Start, memory, idleness": startup_and_idleness,
    "The single executable file": single_executable,
    "Placement alone, in process (p50 / p99 / max)": placements,
    "CreateContainer under disturbance (p50 / p99 / max)": disturbances,
    "Where the time of a creation goes, in process": creation_stages,
    "Features, in process (p50)": creations_with_features,
    "Features, beside the requests": work_beside_requests,
    "What is resident": resident_memory_steps,
}


def _ratio(ratio: float) -> str:
    """Return at least two digits; ratios range from thousandths to hundreds."""
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _times(times: Summary | None) -> str:
    if times is None:
        return ""
    return (
        " / ".join(f"{time * 1e6:.0f}" for time in (times.p50_s, times.p99_s, times.max_s)) + " µs"
    )
