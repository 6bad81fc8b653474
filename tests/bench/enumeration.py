"""Measure placement alone, in process: our managers and a Go enumeration of all sets of nodes.

Both get the same machine, assignments and requests, and place each request three times, of which
the shortest time counts. The enumeration's time doubles with every node, so it is measured only on
machines where a placement takes less than a second; growth is fitted for our managers alone.
"""

import gc
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from nri_numamem.engine.admission.placement import place_by_hints
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS
from nri_numamem.memorymanager import Rejection, Request, State
from nri_numamem.numa import MEMORY
from tests.bench import placement
from tests.bench.figures import Summary, exponent, summary
from tests.bench.go_runtime import NS_PER_S

EMPTY, HALF_FULL = "empty", "half full"
FILLS = (EMPTY, HALF_FULL)
PODS = 110
# The enumeration needs up to 0.2 s for a request on 16 nodes.
REQUESTS, REQUESTS_WIDE, WIDE = 200, 20, 16
POOLS = "one size"

# The kubelet's merge pairs every hint of one resource with every hint of the next.
WITH_PAGES, WITHOUT_PAGES = "memory and hugepages", "memory"
ENUMERATED = {WITHOUT_PAGES: (2, 4, 8, 16), WITH_PAGES: (2, 4, 8)}

GROWTH_PODS = (110, 250, 500, 1000)
GROWTH_NODES = 8


@dataclass(frozen=True, slots=True)
class Compared:
    """Times of both for the same requests."""

    nodes: int
    fill: str
    kind: str
    """Of the requests."""
    ours: Summary
    enumeration: Summary | None
    """None where a placement takes more than a second."""

    @property
    def ratios(self) -> tuple[float, float]:
        """Return p50 and p99 of ours relative to the enumeration, which must have been measured."""
        assert self.enumeration is not None
        return (
            self.ours.p50_s / self.enumeration.p50_s,
            self.ours.p99_s / self.enumeration.p99_s,
        )


def compare(go: Path, nodes: int, fill: str, kind: str) -> Compared:
    """Return the times for a machine with this number of nodes.

    `go` is the folder of the Go programs. RuntimeError when the two use different numbers of
    nodes.
    """
    random = Random(f"enumeration {nodes} {kind}")
    context = placement.context_of(placement.machine_of(random, nodes, POOLS))
    accounting = context.empty_accounting()
    if fill == HALF_FULL:
        accounting = placement.half_full(random, context, PODS)
    is_enumerated = nodes in ENUMERATED[kind]
    count = REQUESTS_WIDE if is_enumerated and nodes >= WIDE else REQUESTS
    requests = [_request(random, context, kind) for _ in range(count)]
    enumeration = None
    if is_enumerated:
        times, widths = _enumerate(go, accounting, requests)
        if widths != [_width(context, accounting, request) for request in requests]:
            raise RuntimeError("the enumeration and the managers take different numbers of nodes")
        enumeration = summary([times])
    return Compared(
        nodes, fill, kind, summary([_admit(context, accounting, requests)]), enumeration
    )


def growth(compared: Sequence[Compared]) -> dict[str, float]:
    """Return the exponents of an admission's growth with nodes and with pods, of p50 and p99."""
    points = [(float(each.nodes), each.ours) for each in compared]
    crowds = [(float(pods), _crowded(pods)) for pods in GROWTH_PODS]
    found: dict[str, float] = {}
    for name, sizes in (("nodes", points), ("pods", crowds)):
        found[f"growth_{name}_p50"] = exponent([(size, times.p50_s) for size, times in sizes])
        found[f"growth_{name}_p99"] = exponent([(size, times.p99_s) for size, times in sizes])
    return found


def _crowded(pods: int) -> Summary:
    random = Random("crowded")
    context = placement.context_of(placement.machine_of(random, GROWTH_NODES, POOLS))
    accounting = placement.half_full(Random(pods), context, pods)
    requests = [_request(random, context, WITHOUT_PAGES) for _ in range(REQUESTS)]
    return summary([_admit(context, accounting, requests)])


def _request(random: Random, context: Context, kind: str) -> Request:
    drawn = placement.request_of(random, context.machine)
    if kind == WITHOUT_PAGES:
        return {MEMORY: drawn[MEMORY]}
    pages = {name: size for name, size in drawn.items() if name != MEMORY}
    return {MEMORY: drawn[MEMORY], **(pages or {"hugepages-2Mi": 64 * placement.MI})}


def _admit(context: Context, accounting: State, requests: Sequence[Request]) -> list[float]:
    def admit(request: Request) -> object:
        # The copy by replace() has no cached properties of earlier requests.
        return place_by_hints(
            context, replace(accounting), ("new", "main"), request, NO_OTHER_PROVIDERS
        )

    gc.collect()
    return [placement.timed(partial(admit, request)) / 1000 for request in requests]


def _width(context: Context, accounting: State, request: Request) -> int:
    placed = place_by_hints(context, accounting, ("new", "main"), request, NO_OTHER_PROVIDERS)
    return 0 if isinstance(placed, Rejection) else len(placed.nodes)


def _enumerate(
    go: Path, accounting: State, requests: Sequence[Request]
) -> tuple[list[float], list[int]]:
    """Return seconds and the number of nodes for each request; 0 when nothing fits."""
    machine = {
        node: {name: table.allocatable for name, table in state.memory_map.items()}
        for node, state in accounting.machine_state.items()
    }
    assignments = [
        {
            "nodes": str(blocks[0].numa_affinity),
            "request": {block.type: block.size for block in blocks},
        }
        for containers in accounting.assignments.values()
        for blocks in containers.values()
    ]
    task = {"machine": machine, "assignments": assignments, "requests": list(requests)}
    done = subprocess.run(
        [str(go / "admissions")],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answer = json.loads(done.stdout)
    widths = [len(nodes.split(",")) if nodes else 0 for nodes in answer["nodes"]]
    return [took / NS_PER_S for took in answer["took_ns"]], widths
