"""Measure CreateContainer from the runtime to a plugin and back, for all plugins in turns.

`python -m tests.bench.creation` measures one case of the benchmark; see --help.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import go_programs, installed
from tests.bench.figures import Summary, summary
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import GI, Host, Programs
from tests.bench.workload import workload

NEWEST, OLDER = go_programs.VERSIONS
CONSTANT, PLACING, OURS = "constant", "placing", "ours"
PEERS = (CONSTANT, PLACING, OURS)
PARTITIONED = "partitioned"
"""Ours with the setting `partitions`; its pods have all nodes but two."""

# The keys of this number of nodes and pods omit it.
MAIN_SIZE = (8, 110)

# Unmeasured creations at the start: both sides load and compile code then.
WARM_UP = 100

# The pause between two creations on a host that has other work in between.
PACED_GAP_US = 3000


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: a machine, running pods, and a kind of container."""

    version: str
    nodes: int
    pods: int
    guaranteed: bool = True
    gap_us: int = 0
    """Pause between a pod's start and its container's creation; 0 is as fast as possible."""

    def key(self, what: str) -> str:
        """Return the key of one number: "create_p50", "create_not_managed_p99_64n_0p"."""
        parts = ["create", "paced" * bool(self.gap_us), "not_managed" * (not self.guaranteed), what]
        if (self.nodes, self.pods) != MAIN_SIZE:
            parts.append(f"{self.nodes}n_{self.pods}p")
        if self.version != NEWEST:
            parts.append(self.version.replace("-", "_").replace(".", "_"))
        return "_".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """Return the case's name in tables."""
        kind = "" if self.guaranteed else ", not managed"
        paced = f", {self.gap_us / 1000:g} ms apart" if self.gap_us else ""
        version = self.version.replace("nri-", "NRI ")
        return f"{self.nodes} nodes, {self.pods} pods, {version}{kind}{paced}"


EMPTY = Case(NEWEST, 8, 0)

CASES = (
    *(Case(NEWEST, nodes, pods) for nodes in (2, 8, 64) for pods in (0, 110, 500)),
    Case(NEWEST, 8, 110, guaranteed=False),
    Case(OLDER, 8, 110),
    Case(OLDER, 8, 110, guaranteed=False),
    Case(NEWEST, 8, 110, gap_us=PACED_GAP_US),
)

# One of each kind, and one NRI version, so that only one set of Go programs is built.
QUICK_CASES = (
    EMPTY,
    Case(NEWEST, 64, 110),
    Case(NEWEST, 8, 110, guaranteed=False),
    Case(NEWEST, 8, 110, gap_us=PACED_GAP_US),
)


@contextmanager
def filled(
    case: Case, programs: Programs, peers: Sequence[str], *, state_file: bool = True
) -> Iterator[Mapping[str, tuple[GoRuntime, Host]]]:
    """Start each plugin with a runtime of its own and the case's running pods."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started: dict[str, tuple[GoRuntime, Host]] = {}
        for peer in peers:
            host = stack.enter_context(Host(root / peer, case.nodes, programs))
            runtime = stack.enter_context(GoRuntime(programs.go, host.socket))
            runtime.start()
            if peer == PARTITIONED:
                config = _with_partitions(root / "config.yaml", case.nodes)
                host.start(OURS, ("--config", str(config)), state_file=state_file)
            else:
                host.start(peer, state_file=state_file)
            host.wait_for(runtime)
            runtime.set_workload(workload(GI), "placed")
            runtime.fill(case.pods)
            if not case.guaranteed:
                expect = "not_managed" if peer != CONSTANT else ""
                runtime.set_workload(workload(GI, guaranteed=False), expect)
            started[peer] = (runtime, host)
        yield started


def _with_partitions(path: Path, nodes: int) -> Path:
    last = nodes - 1
    inside = f"nodes: 0-{last - 2}, namespaces: ['*'], exclusive: guaranteed"
    outside = f"nodes: {last}, namespaces: [none], exclusive: all"
    path.write_text(f"partitions:\n- {{name: a, {outside}}}\n- {{name: b, {inside}}}\n")
    return path


def measure(
    case: Case,
    programs: Programs,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int,
    count: int,
    state_file: bool = True,
) -> dict[str, Summary]:
    """Return each plugin's times for `rounds` times `count` creations.

    Without `state_file` our plugin runs without a state file.
    """
    times: dict[str, list[list[float]]] = {peer: [] for peer in peers}
    with filled(case, programs, peers, state_file=state_file) as started:
        for runtime, _ in started.values():
            runtime.measure(WARM_UP, case.gap_us)
        for _ in range(rounds):
            for peer, (runtime, _) in started.items():
                times[peer].append(runtime.measure(count, case.gap_us))
    return {peer: summary(found) for peer, found in times.items()}


def main() -> None:
    """Measure one case and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nri", default="0.12.2", help="NRI's version")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--pods", type=int, default=110, help="running pods")
    parser.add_argument("--not-managed", action="store_true", help="containers of Burstable pods")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500, help="creations per round and peer")
    parser.add_argument("--gap-us", type=int, default=0, help="pause before each creation")
    parser.add_argument("--no-state-file", action="store_true", help="run our plugin without one")
    parser.add_argument(
        "--peers", nargs="+", default=[CONSTANT, OURS], choices=(*PEERS, PARTITIONED)
    )
    args = parser.parse_args()
    version = f"nri-{args.nri}"
    case = Case(version, args.nodes, args.pods, not args.not_managed, args.gap_us)
    programs = Programs(installed.install("creation"), go_programs.build(version))
    found = measure(
        case,
        programs,
        peers=args.peers,
        rounds=args.rounds,
        count=args.count,
        state_file=not args.no_state_file,
    )
    print(f"{case.label}: {args.rounds} rounds of {args.count}")
    for peer, times in found.items():
        print(peer, times.as_us())
    if CONSTANT in found and OURS in found:
        p50, p99 = (
            getattr(found[OURS], key) / getattr(found[CONSTANT], key) for key in ("p50_s", "p99_s")
        )
        print(f"create_p50 {p50:.2f}  create_p99 {p99:.2f}  (ours / constant)")
    if OURS in found and PARTITIONED in found:
        ratio = found[PARTITIONED].p50_s / found[OURS].p50_s
        print(f"create_p50 {ratio:.2f}  (partitioned / ours)")


if __name__ == "__main__":
    main()
