"""Claims beside the kubelet's managers: the table in docs/claims.md.

`python -m tests.scheduler_allocator.compare` prints it; ``recording`` has the answers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench.report import markdown
from tests.kubelet_managers.cpu_lives import CPUS, GI, MEMORY_GI, RESERVED_GI, CpuLife
from tests.scheduler_allocator.play import Order, Outcome, Outcomes
from tests.scheduler_allocator.recording import ALL_SHAPES, LIVES, recorded

HEADER = ("NUMA nodes, pods", "admitted", "memory in use", "CPUs in use")
KUBELET = "kubelet"


@dataclass
class Figures:
    """What the lives of one kind add up to."""

    pods: int = 0
    admitted: int = 0
    apart: int = 0
    """Admitted pods whose CPUs are on another node than their memory."""
    use: list[tuple[float, float]] = field(default_factory=list)
    """Used shares of memory and CPUs of the host after each step."""

    def add(self, life: CpuLife, outcomes: Mapping[str, Any]) -> None:
        """Add a life; a pod is admitted unless its outcome is None or a reason."""
        self.pods += len(outcomes)
        running: dict[str, tuple[int, int]] = {}
        for step in life.steps:
            running.pop(step.ends, None)
            request = step.starts
            found = outcomes.get(request.name)
            if found is not None and not isinstance(found, str):
                running[request.name] = request.memory_bytes, request.cpus
                self.admitted += 1
                self.apart += isinstance(found, Outcome) and found.memory_nodes != found.cpu_nodes
            memory, cpus = (sum(each) for each in zip((0, 0), *running.values(), strict=True))
            allocatable = life.nodes * (MEMORY_GI - RESERVED_GI) * GI
            self.use.append((memory / allocatable, cpus / (life.nodes * CPUS)))

    def row(self) -> tuple[str, ...]:
        """Return admitted pods, used memory and used CPUs in per cent."""
        memory, cpus = (sum(each) / len(self.use) for each in zip(*self.use, strict=True))
        shares = (self.admitted / self.pods, memory, cpus)
        return tuple(f"{100 * share:.1f} %" for share in shares)


Life = tuple[CpuLife, Mapping[str, Any], Mapping[Order, Outcomes]]


def figures(lives: Iterable[Life]) -> dict[tuple[str, int, str], Figures]:
    """Return (shape, nodes, kubelet or order) -> figures."""
    found: dict[tuple[str, int, str], Figures] = {}
    for number, (life, kubelet, outcomes) in enumerate(lives):
        shape = ALL_SHAPES[number // LIVES]
        by_name = ({KUBELET: kubelet} if kubelet else {}) | {
            o.value: each for o, each in outcomes.items()
        }
        for name, each in by_name.items():
            found.setdefault((shape, life.nodes, name), Figures()).add(life, each)
    return found


def rows(found: Mapping[tuple[str, int, str], Figures]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: node ids, then fullest first."""
    for shape, nodes in sorted(
        {key[:2] for key in found}, key=lambda k: (ALL_SHAPES.index(k[0]), k[1])
    ):
        columns = [found[shape, nodes, order.value].row() for order in Order]
        merged = (" / ".join(each) for each in zip(*columns, strict=True))
        yield f"{nodes}, {shape}", *merged


def main() -> None:
    """Print the table."""
    print(markdown([HEADER, *rows(figures(recorded()))]))


if __name__ == "__main__":
    main()
