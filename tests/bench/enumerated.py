"""Placement alone, in process: the managers against a Go enumeration of all sets of nodes.

Both get the same machine, books and requests, and answer each question three times, of which the
shortest counts. The enumeration doubles with every node, so it is asked only where one question
ends within a second; growth is fitted over all sizes for the managers alone.
"""

import gc
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from nri_numamem.engine.context import Context
from nri_numamem.engine.providers import NO_OTHERS
from nri_numamem.memorymanager import MEMORY, Rejection, Request, State
from tests.bench import placement
from tests.bench.figures import Summary, exponent, summary
from tests.bench.go_runtime import NS_PER_S

EMPTY, HALF_FULL = "empty", "half full"
BOOKS = (EMPTY, HALF_FULL)
PODS = 110
# One that the enumeration answers takes up to 0.2 s on 16 nodes.
QUESTIONS, QUESTIONS_WIDE, WIDE = 200, 20, 16
POOLS = "one size"

# The kubelet's merge pairs every hint of one resource with every hint of the next.
WITH_PAGES, WITHOUT_PAGES = "memory and hugepages", "memory"
ENUMERATED = {WITHOUT_PAGES: (2, 4, 8, 16), WITH_PAGES: (2, 4, 8)}

GROWTH_PODS = (110, 250, 500, 1000)
GROWTH_NODES = 8


@dataclass(frozen=True, slots=True)
class Compared:
    """The same questions, asked of both."""

    nodes: int
    books: str
    request: str
    ours: Summary
    enumeration: Summary | None
    """None where it does not end within a second."""

    @property
    def ratios(self) -> tuple[float, float]:
        """Return p50 and p99 of ours to those of the enumeration, which must have ended."""
        assert self.enumeration is not None
        return (
            self.ours.p50_s / self.enumeration.p50_s,
            self.ours.p99_s / self.enumeration.p99_s,
        )


def compare(go: Path, nodes: int, fill: str, request: str) -> Compared:
    """Return the times for a machine with so many nodes; `go` is where the programs are."""
    random = Random(f"enumerated {nodes} {request}")
    context = placement.context_of(placement.machine_of(random, nodes, POOLS))
    books = context.empty_books()
    if fill == HALF_FULL:
        books = placement.half_full(random, context, PODS)
    is_enumerated = nodes in ENUMERATED[request]
    count = QUESTIONS_WIDE if is_enumerated and nodes >= WIDE else QUESTIONS
    questions = [_question(random, context, request) for _ in range(count)]
    enumeration = None
    if is_enumerated:
        times, widths = _enumerate(go, books, questions)
        if widths != [_width(context, books, question) for question in questions]:
            raise RuntimeError("the enumeration and the managers take different numbers of nodes")
        enumeration = summary([times])
    return Compared(nodes, fill, request, summary([_admit(context, books, questions)]), enumeration)


def growth(compared: Sequence[Compared]) -> dict[str, float]:
    """Return the exponents with which the time of an admission grows, of median and p99."""
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
    books = placement.half_full(Random(pods), context, pods)
    questions = [_question(random, context, WITHOUT_PAGES) for _ in range(QUESTIONS)]
    return summary([_admit(context, books, questions)])


def _question(random: Random, context: Context, request: str) -> Request:
    asked = placement.request_of(random, context.machine)
    if request == WITHOUT_PAGES:
        return {MEMORY: asked[MEMORY]}
    pages = {name: size for name, size in asked.items() if name != MEMORY}
    return {MEMORY: asked[MEMORY], **(pages or {"hugepages-2Mi": 64 * placement.MI})}


def _admit(context: Context, books: State, questions: Sequence[Request]) -> list[float]:
    def ask(question: Request) -> object:
        # replace() makes books that remember nothing of what they were asked before.
        return context.place(replace(books), ("new", "main"), question, NO_OTHERS)

    gc.collect()
    return [placement.timed(partial(ask, question)) / 1000 for question in questions]


def _width(context: Context, books: State, question: Request) -> int:
    placed = context.place(books, ("new", "main"), question, NO_OTHERS)
    return 0 if isinstance(placed, Rejection) else len(placed.nodes)


def _enumerate(
    go: Path, books: State, questions: Sequence[Request]
) -> tuple[list[float], list[int]]:
    """Return seconds and the number of nodes for each question; 0 when nothing fits."""
    machine = {
        node: {name: table.allocatable for name, table in state.memory_map.items()}
        for node, state in books.machine_state.items()
    }
    held = [
        {
            "nodes": str(blocks[0].numa_affinity),
            "request": {block.type: block.size for block in blocks},
        }
        for containers in books.assignments.values()
        for blocks in containers.values()
    ]
    task = {"machine": machine, "books": held, "questions": list(questions)}
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
