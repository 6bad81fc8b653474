"""Measure placement alone: hints, full admission, removal, and a merge of full lists.

Run `python -m tests.bench.placement` (or the file itself); it prints a table and writes
build/bench-placement.json. Machines, assignments and requests come from seeds, so every run
measures the same requests. Every measurement is the shortest of three, which excludes most effects
of other processes.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter

from nri_numamem.engine.admission.placement import place_by_hints, place_on_nodes
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.memorymanager import Hint, Rejection, Request, Reservation, State, remove_container
from nri_numamem.memorymanager.hints import hints_for_request
from nri_numamem.numa import MEMORY, CpuSet, Machine, NodeSet, NumaNode, hugepages_resource
from nri_numamem.topologymanager import ProviderHints, TopologyPolicy, merge_hints
from tests.bench.figures import exponent, quantile

OUTPUT = Path("build/bench-placement.json")
MI, GI = 2**20, 2**30
PAGES = ("hugepages-2Mi", "hugepages-1Gi")

# Nodes -> sockets per board, nodes per socket: SNC and NPS, up to four boards.
SHAPES = {2: (2, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 4), 64: (4, 4)}
FILLS = (
    ("empty", 0),
    *((fill, pods) for fill in ("half full", "fragmented") for pods in (110, 500)),
)
# Distances without levels: rare machines, on which only the search limits bound the time.
WIRINGS = ("cube of sockets", "like noise")
POOLS = ("one size", "two sizes", "mixed", "memory-only nodes")
REQUESTS_PER_POOL = 100


@dataclass(frozen=True, slots=True)
class Row:
    """Times of one kind of operation, in milliseconds."""

    nodes: int
    fill: str
    pods: int
    what: str
    times_ms: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Return the time that this share of the operations does not exceed."""
        return quantile(self.times_ms, share)


def distance(first: int, second: int, shape: tuple[int, int], slow: Sequence[int]) -> int:
    """Return a SLIT distance: 10, 11-12 in a socket, 20 on a board, 32 beyond; CXL is farther."""
    if first == second:
        return 10
    sockets, width = shape
    per_board = sockets * width
    farther = 4 * ((first in slow) + (second in slow))
    if first // width == second // width:
        return (11 if first // 2 == second // 2 else 12) + farther
    return (20 if first // per_board == second // per_board else 32) + farther


def machine_of(random: Random, nodes: int, pools: str) -> Machine:
    """Return a machine whose nodes hold about 128 GiB, and the named pools."""
    shape = SHAPES[nodes]
    slow = range(3, nodes, 4) if pools == "memory-only nodes" else ()
    made: list[NumaNode] = []
    for n in range(nodes):
        # MemTotal differs by some pages from node to node.
        memory = 128 * GI - 4096 * random.randint(0, 50_000) - (GI if n == 0 else 0)
        pages: dict[int, int] = {}
        if n in slow:
            memory *= 2
        elif pools == "mixed":
            pages = {2 * MI: random.choice((0, 4096, 8192)), GI: random.choice((0, 8, 16))}
        else:
            pages = {2 * MI: 8192} | ({GI: 16 * (n % 4 < 2)} if pools == "two sizes" else {})
        cpus = CpuSet(() if n in slow else range(8 * n, 8 * n + 8))
        rows = {other: distance(n, other, shape, slow) for other in range(nodes)}
        made.append(NumaNode(n, memory, pages, cpus, rows))
    return Machine(tuple(made))


def rewired(random: Random, machine: Machine, wiring: str) -> Machine:
    """Return the machine with its sockets connected as a cube, or with random distances."""
    width = len(machine.nodes) // 8

    def between(a: int, b: int) -> int:
        if a == b:
            return 10
        if wiring == "like noise":
            return random.randint(11, 40)
        return (12, 21, 31, 41)[((a // width) ^ (b // width)).bit_count()]

    ids = range(len(machine.nodes))
    return Machine(
        tuple(
            replace(node, distances={other: between(node.node_id, other) for other in ids})
            for node in machine.nodes
        )
    )


def context_of(machine: Machine) -> Context:
    """Return the context for a machine that keeps 1 GiB per node for the host."""
    reserved = tuple(Reservation(node.node_id, {MEMORY: GI}) for node in machine.nodes)
    return Context.of(machine, Policy(reserved_memory=reserved))


def request_of(random: Random, machine: Machine) -> Request:
    """Return a request of the mix: 60 % fit a node, 30 % need 2-4 nodes, 10 % up to 12.

    It has memory alone, or also hugepages of the smallest size, or of all sizes.
    """
    nodes = len(machine.nodes)
    pools = sorted({size for node in machine.nodes for size in node.hugepages})
    kind = random.random()
    widest = 1 if kind < 0.6 else random.randint(2, 4) if kind < 0.9 else random.randint(5, 12)
    width = min(widest, max(1, nodes - 1))
    share = width - random.uniform(0.05, 0.95)
    request = {MEMORY: int(share * 100 * GI)}
    for size in random.choice(((), pools[:1], pools)):
        request[hugepages_resource(size)] = max(1, int(share * 8 * GI) // size) * size
    return request


def half_full(random: Random, context: Context, pods: int) -> State:
    """Return a state in which this number of pods, admitted in turn, have half of the memory."""
    accounting = context.empty_accounting()
    nodes = accounting.machine_state
    requests = [request_of(random, context.machine) for _ in range(pods)]
    room = sum(node.table(MEMORY).allocatable for node in nodes.values()) / 2
    scale = room / sum(request[MEMORY] for request in requests)
    for number, request in enumerate(requests):
        less = {name: int(size * scale) for name, size in request.items()}
        placed = place_by_hints(context, accounting, (f"pod-{number}", "main"), less)
        accounting = accounting if isinstance(placed, Rejection) else placed.accounting
    return accounting


def fragmented(random: Random, context: Context, pods: int) -> State:
    """Return a state with small pods on two thirds of the nodes, some in groups of 2 or 3."""
    accounting = context.empty_accounting()
    ids = list(accounting.machine_state)
    random.shuffle(ids)
    used = ids[: -(-len(ids) * 2 // 3)]
    places: list[NodeSet] = []
    while used:
        width = random.choice((1, 1, 1, 2, 3))
        places.append(NodeSet(used[:width]))
        used = used[width:]
    for number in range(pods):
        nodes = random.choice(places)
        size = int(random.uniform(0.1, 1.2) * len(nodes) * 100 * GI * len(places) / pods)
        request = {MEMORY: size, **random.choice(({}, {"hugepages-2Mi": 64 * MI}))}
        placed = place_on_nodes(context, accounting, (f"pod-{number}", "main"), request, nodes)
        accounting = accounting if isinstance(placed, Rejection) else placed.accounting
    return accounting


def other_providers_of(random: Random, machine: Machine) -> OtherProviders:
    """Return what CPUs and devices progress: mostly nothing, else a node or two."""
    with_cpus = [node.node_id for node in machine.nodes if node.cpus]
    kind = random.random()
    if kind < 0.6:
        return NO_OTHER_PROVIDERS
    cpu = NodeSet(random.sample(with_cpus, min(len(with_cpus), random.choice((1, 1, 2)))))
    return OtherProviders((NodeSet([random.choice(with_cpus)]),) if kind < 0.8 else (), cpu)


def timed(operation: Callable[[], object]) -> float:
    """Return the shortest of three times, in milliseconds."""
    times: list[float] = []
    for _ in range(3):
        start = perf_counter()
        operation()
        times.append(perf_counter() - start)
    return min(times) * 1000


def rows_of(nodes: int, fill: str, pods: int) -> Iterator[Row]:
    """Yield times of hints, admission and removal on machines with every kind of pools."""
    times: dict[str, list[float]] = {"hints": [], "admission": [], "removal": []}
    for pools in POOLS:
        random = Random(f"{nodes} {fill} {pods} {pools}")
        machine = machine_of(random, nodes, pools)
        if fill in WIRINGS:
            machine = rewired(random, machine, fill)
        context = context_of(machine)
        fills = {"half full": half_full, "fragmented": fragmented}
        accounting = fills[fill](random, context, pods) if pods else context.empty_accounting()
        for _ in range(REQUESTS_PER_POOL):
            measure_request(
                times,
                context,
                accounting,
                request_of(random, machine),
                other_providers_of(random, machine),
            )
    for what, found in times.items():
        yield Row(nodes, fill, pods, what, tuple(found))


def measure_request(
    times: dict[str, list[float]],
    context: Context,
    accounting: State,
    request: Request,
    others: OtherProviders,
) -> None:
    """Time one request."""
    key = ("new", "main")
    preferences = context.topology.preferences
    # The copy by replace() has no cached properties of earlier requests.
    times["hints"].append(
        timed(lambda: hints_for_request(replace(accounting), "new", request, preferences))
    )
    times["admission"].append(
        timed(lambda: place_by_hints(context, replace(accounting), key, request, others))
    )
    placed = place_by_hints(context, accounting, key, request, others)
    if not isinstance(placed, Rejection):
        after = placed.accounting
        times["removal"].append(timed(lambda: remove_container(after, *key)))


def merge_row() -> Row:
    """Merge memory, two sizes of hugepages, CPUs and a device on 8 nodes: 255 hints each."""
    machine = machine_of(Random(8), 8, "one size")
    preferences = context_of(machine).topology.preferences
    times: list[float] = []
    for preferred in range(1, 9):
        hints = [
            Hint(NodeSet.from_mask(mask), preferred=mask.bit_count() == preferred)
            for mask in range(1, 256)
        ]
        memory: ProviderHints = {MEMORY: hints, **dict.fromkeys(PAGES, hints)}
        cpu = [replace(hint, preferred=len(hint.affinity or ()) == 1) for hint in hints]
        device = [replace(hint, preferred=hint.affinity == NodeSet([5])) for hint in hints]
        providers: list[ProviderHints] = [memory, {"cpu": cpu}, {"device": device}]
        best_effort = TopologyPolicy.BEST_EFFORT
        merging = partial(merge_hints, providers, machine.node_set, best_effort, preferences)
        times.append(timed(merging))
    return Row(8, "full lists", 0, "merge", tuple(times))


def growth(rows: Sequence[Row]) -> dict[str, float]:
    """Fit how the median and the p99 grow with the nodes, and the median with the pods."""
    found: dict[str, float] = {}
    for what in ("hints", "admission", "removal"):
        own = [row for row in rows if row.what == what and row.fill not in WIRINGS]
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            points = [(float(row.nodes), row.quantile(share)) for row in own]
            found[f"{what} {name} over nodes"] = round(exponent(points), 2)
        pods = [(float(row.pods), row.quantile(0.5)) for row in own if row.pods]
        found[f"{what} p50 over pods"] = round(exponent(pods), 2)
    return found


def main() -> None:
    """Measure, print, write; arguments are the numbers of nodes, all if there are none."""
    print(f"{'nodes':>5} {'fill':<15} {'pods':>4} {'what':<10} {'p50':>8} {'p99':>8} {'max':>8} ms")
    gc.collect()
    gc.freeze()
    rows: list[Row] = []
    written: list[dict[str, object]] = []
    wanted = [int(word) for word in sys.argv[1:]] or list(SHAPES)
    for nodes in wanted:
        for fill, pods in (*FILLS, *((wiring, 0) for wiring in WIRINGS if nodes >= 16)):
            for row in rows_of(nodes, fill, pods):
                rows.append(row)
                written.append(show(row))
    written.append(show(merge_row()))
    fitted = growth(rows) if len(wanted) > 1 else {}
    for name, value in fitted.items():
        print(f"{name}: size ** {value}")
    OUTPUT.parent.mkdir(exist_ok=True)
    document = {"rows": written, "growth": fitted}
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {OUTPUT}")


def show(row: Row) -> dict[str, object]:
    """Print one line, and return it."""
    p50, p99, most = row.quantile(0.5), row.quantile(0.99), max(row.times_ms)
    print(
        f"{row.nodes:>5} {row.fill:<15} {row.pods:>4} {row.what:<10}"
        f" {p50:>8.3f} {p99:>8.3f} {most:>8.3f}",
        flush=True,
    )
    key = {"nodes": row.nodes, "fill": row.fill, "pods": row.pods, "what": row.what}
    times = {"p50_ms": round(p50, 4), "p99_ms": round(p99, 4), "max_ms": round(most, 4)}
    return {**key, "count": len(row.times_ms), **times}


if __name__ == "__main__":
    main()
