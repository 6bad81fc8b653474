"""The recorded answers of the kubelet's managers, and the command that records them.

`answers.xz` has one JSON line per life: {"life": ..., "answers": [...]}. The first answer is that
of the kubelet's start, then one per step. Of the managers' state an answer has what the step
changed; `States` adds the changes up.

    python -m tests.kubelet_managers.answers      builds the Go program and records all answers
"""

import argparse
import json
import lzma
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.conformance.go_runtime import go_program
from tests.kubelet_managers.cases import CASES
from tests.kubelet_managers.lives import LIVES, Life, random_life

Answer: TypeAlias = dict[str, Any]
Blocks: TypeAlias = dict[str, list[tuple[tuple[int, ...], str, int]]]
"""Container name -> (nodes, resource, MiB), in the order of the resources."""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORDED = HERE / "answers.xz"
RECORDED_CASES = HERE / "cases.json"
PROGRAM = ROOT / "build" / "kubelet_managers" / "managers"

_BUILD_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class NodeMap:
    """A NUMA node in the kubelet's state."""

    count: int
    cells: tuple[int, ...]
    free: dict[str, int]
    """Resource -> MiB."""


@dataclass(frozen=True, slots=True)
class KubeletState:
    """The state of the kubelet's Memory Manager."""

    nodes: dict[int, NodeMap] = field(default_factory=dict)
    blocks: dict[str, Blocks] = field(default_factory=dict)

    def after(self, answer: Answer) -> "KubeletState":
        """Return the state with the changes of an answer."""
        nodes = dict(self.nodes)
        for node_id, (count, cells, free) in answer.get("maps", {}).items():
            nodes[int(node_id)] = NodeMap(count, tuple(cells), free)
        blocks = dict(self.blocks)
        for uid, containers in answer.get("blocks", {}).items():
            blocks.pop(uid, None)
            if containers:
                blocks[uid] = {
                    name: [(tuple(affinity), resource, size) for affinity, resource, size in found]
                    for name, found in containers.items()
                }
        return KubeletState(dict(sorted(nodes.items())), blocks)


def states(answers: Iterable[Answer]) -> Iterator[KubeletState]:
    """Yield the state after each answer."""
    state = KubeletState()
    for answer in answers:
        state = state.after(answer)
        yield state


def recorded() -> Iterator[tuple[Life, list[Answer]]]:
    """Yield the lives and their answers."""
    with lzma.open(RECORDED, "rt") as lines:
        for line in lines:
            found = json.loads(line)
            yield found["life"], found["answers"]


def ask(program: Path, lives: Iterable[Life]) -> Iterator[list[Answer]]:
    """Yield the answers of the kubelet's managers to each life."""
    lines = "".join(f"{json.dumps(life)}\n" for life in lives)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    yield from map(json.loads, done.stdout.splitlines())


def build(source: Path = HERE / "go", program: Path = PROGRAM) -> Path:
    """Build a Go program; raise RuntimeError with Go's output, or when Go is missing."""
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing: install it, or set GO to its path")
    program.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [go, "build", "-o", program, "."],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_TIMEOUT_S,
    )
    if built.returncode:
        raise RuntimeError(built.stderr)
    return program


def record(program: Path) -> None:
    """Record the answers to all lives and to the examples."""
    lives = [random_life(seed) for seed in range(LIVES)]
    found = list(ask(program, lives))
    lines = [
        json.dumps({"life": life, "answers": answers}, separators=(",", ":"))
        for life, answers in zip(lives, found, strict=True)
    ]
    text = "".join(f"{line}\n" for line in lines)
    RECORDED.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    record_cases(program)


def record_cases(program: Path) -> None:
    """Record the answers to the examples alone."""
    found = ask(program, [case.life for case in CASES])
    text = ",\n".join(json.dumps(answers, separators=(",", ":")) for answers in found)
    RECORDED_CASES.write_text(f"[\n{text}\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, help="a Go program that is built already")
    parser.add_argument("--cases", action="store_true", help="record the examples only")
    arguments = parser.parse_args()
    (record_cases if arguments.cases else record)(arguments.program or build())


if __name__ == "__main__":
    main()
