"""Lives with init containers, on the kubelet's managers and on the plugin's engine.

The kubelet releases an init container when the pod's next container starts. The plugin keeps what
ended containers hold, up to the pod's limit. `python -m tests.kubelet_managers.ended_containers`
prints how many lives differ for that, in less than a minute; the table is in
docs/kubelet-differences.md. The kubelet's answers are recorded in `ended_containers.xz`; `--record`
runs the Go program again.

Each pod has one or two init containers, there are no hints of CPUs, and all of a pod's containers
start when the pod is admitted. A life differs for ended containers if one of its admissions has
another outcome than in the kubelet, but none has with an engine that releases init containers as
the kubelet does. Reasons of rejections do not count.
"""

import argparse
import itertools
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from nri_numamem.engine.admission import equal_nodes
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import outstanding
from nri_numamem.memorymanager import remove_container
from tests.bench.report import markdown
from tests.kubelet_managers.answers import HERE, Answer, ask, build, states
from tests.kubelet_managers.lives import Life, random_life
from tests.kubelet_managers.replay import Simulated

LIVES = 500
RECORDED = HERE / "ended_containers.xz"

# Other differences of pods with several containers.
_OTHER_RULES = ((outstanding, "rejection_of_first"), (equal_nodes, "remaining_request"))

Outcomes: TypeAlias = list[dict[str, list[int]] | None]
"""For each admission the nodes of the pod's containers; None for a rejection."""


def lives_with_inits(count: int) -> list[Life]:
    """Return the first random lives that have init containers, changed as described above."""
    lives = map(_without_other_differences, map(random_life, itertools.count()))
    has_inits = filter(_has_inits, lives)
    return list(itertools.islice(has_inits, count))


def _has_inits(life: Life) -> bool:
    kinds = (each["kind"] for pod in life["pods"].values() for each in pod["containers"])
    return "init" in kinds


def _without_other_differences(life: Life) -> Life:
    """Return a life in container scope without hints and without pods that return."""
    sizes = sorted({size for node in life["nodes"] for size in node["pages"]})
    for node in life["nodes"]:  # the kubelet crashes where a node lacks a pool
        node["pages"] = {size: node["pages"].get(size, 0) for size in sizes}
    pods: dict[str, Any] = {}
    steps: list[dict[str, Any]] = []
    current: dict[str, str] = {}
    for step in life["steps"]:
        if "admit" in step:
            uid = current[step["admit"]] = f"p{len(pods)}"
            pods[uid] = life["pods"][step["admit"]]
            steps += [{"admit": uid}, {"start": uid}]
        elif "remove" in step:
            steps.append({"remove": current[step["remove"]]})
    changed = {"scope": "container", "providers": "none", "closest": False}
    return {**life, **changed, "pods": pods, "steps": steps}


class Releasing(Simulated):
    """An engine that releases init containers when the pod's app containers start."""

    def start(self, uid: str) -> None:
        """Release the pod's ended containers."""
        state = self._player._engine.state
        for name in state.accounting.reusable.get(uid, ()):
            accounting = remove_container(state.accounting, uid, name)
            state = state.without_holder(state.holders[uid, name], accounting)
        self._player._engine = Engine.with_state(self._player._engine.context, state)
        self.state = state.accounting


def of_kubelet(life: Life, answers: Sequence[Answer]) -> Outcomes:
    """Return the outcomes of recorded answers."""
    found: Outcomes = []
    for step, answer, state in zip(
        life["steps"], answers[1:], list(states(answers))[1:], strict=True
    ):
        if "admit" in step:
            blocks = state.blocks.get(step["admit"], {})
            nodes = {name: list(each[0][0]) for name, each in blocks.items()}
            found.append(None if answer.get("reason") else nodes)
    return found


def of_engine(life: Life, host: Simulated, *, keeps_all: bool = False) -> Outcomes:
    """Play a life; `keeps_all` lets ended containers keep what they hold beyond the limit."""
    found: Outcomes = []
    with ExitStack() as stack:
        for owner, name in _OTHER_RULES:
            stack.enter_context(mock.patch.object(owner, name, return_value=None))
        if keeps_all:
            stack.enter_context(mock.patch.object(pod_limit, "excess", return_value={}))
        for step in life["steps"]:
            if "remove" in step:
                host.remove(step["remove"])
            elif "start" in step:
                host.start(step["start"])
            else:
                done = host.admit(step["admit"], {})
                nodes = {name: list(each) for name, each in done.nodes.items()}
                found.append(None if done.reason else nodes)
    return found


RULES: Mapping[str, Callable[[Life], Outcomes]] = {
    "all is kept until the pod ends": lambda life: of_engine(life, Simulated(life), keeps_all=True),
    "kept up to the pod's limit (the plugin)": lambda life: of_engine(life, Simulated(life)),
    "released when the pod's app containers start": lambda life: of_engine(life, Releasing(life)),
}


def first_difference(kubelet: Outcomes, plugin: Outcomes) -> str:
    """Return of which kind the first different outcome is; "" if there is none."""
    for theirs, ours in zip(kubelet, plugin, strict=True):
        if theirs != ours:
            if ours is None:
                return "the plugin rejects"
            return "the kubelet rejects" if theirs is None else "other nodes"
    return ""


def table(recorded: Iterable[Outcomes], lives: int) -> list[tuple[str, ...]]:
    """Return the table: one row per rule for the memory of ended containers."""
    found = list(zip(lives_with_inits(lives), recorded, strict=False))
    played = {rule: [play(life) for life, _ in found] for rule, play in RULES.items()}
    *_, reference = played.values()
    is_same = [not first_difference(k, r) for (_, k), r in zip(found, reference, strict=True)]
    admitted = sum(admissions(kubelet) for _, kubelet in found)
    total = sum(len(kubelet) for _, kubelet in found)
    rows: list[tuple[str, ...]] = [
        ("memory of ended containers", "lives that differ", *_KINDS, f"admitted of {total} pods"),
        ("the kubelet", "", "", "", "", f"{admitted}"),
    ]
    for rule, outcomes in played.items():
        kinds = Counter(
            first_difference(kubelet, plugin)
            for (_, kubelet), plugin, same in zip(found, outcomes, is_same, strict=True)
            if same
        )
        differ = sum(kinds[kind] for kind in _KINDS)
        counts = [f"{kinds[kind]}" for kind in _KINDS]
        admitted = sum(map(admissions, outcomes))
        rows.append((rule, f"{differ} of {sum(is_same)}", *counts, f"{admitted}"))
    return rows


_KINDS = ("the plugin rejects", "the kubelet rejects", "other nodes")


def admissions(outcomes: Outcomes) -> int:
    """Return the number of admitted pods."""
    return sum(outcome is not None for outcome in outcomes)


def recorded() -> Iterator[Outcomes]:
    """Yield the recorded outcomes of the kubelet, one line of JSON per life."""
    with lzma.open(RECORDED, "rt") as lines:
        yield from map(json.loads, lines)


def record(program: Path) -> None:
    """Ask the Go program, and record its outcomes."""
    lives = lives_with_inits(LIVES)
    found = (of_kubelet(*each) for each in zip(lives, ask(program, lives), strict=True))
    text = "".join(f"{json.dumps(outcomes, separators=(',', ':'))}\n" for outcomes in found)
    RECORDED.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    """Print the table; first record the outcomes, with --record."""
    parser = argparse.ArgumentParser(description="Memory of ended containers beside the kubelet.")
    parser.add_argument("--record", action="store_true", help="ask the kubelet's managers again")
    parser.add_argument("--program", type=Path, help="a Go program that is built already")
    parser.add_argument("--lives", type=int, default=LIVES, help="how many (%(default)s)")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.program or build())
    print(markdown(table(recorded(), arguments.lives)))


if __name__ == "__main__":
    main()
