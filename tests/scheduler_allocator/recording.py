"""Recorded answers of the scheduler's allocator, and of the kubelet's managers, to the same lives.

`answers.xz` has a line of JSON with the Kubernetes versions, then one per life of ``play``:
[digest, the kubelet's outcomes, {order: the scheduler's outcomes}]. An outcome of the kubelet is
the list of a pod's memory nodes or the reason of its refusal; lives with pods on two nodes have
none. One of the scheduler is [[request, device], ...] or null. The digest is that of the life, of
all that was published and claimed, and of the answers. So the tests play the lives without Go, and
find a slice that changed.

    python -m tests.scheduler_allocator.recording      builds both Go programs and records
"""

import argparse
import hashlib
import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubelet_managers.answers import ask, build
from tests.kubelet_managers.cpu_lives import SHAPES, CpuLife
from tests.kubelet_managers.static_cpus import StaleRecordingError, kubernetes_version, of_kubelet
from tests.scheduler_allocator import examples
from tests.scheduler_allocator.allocator import PROGRAM, SOURCE, Allocator
from tests.scheduler_allocator.play import (
    TWO_NODES,
    Order,
    Outcomes,
    Scheduler,
    life_of,
    play,
)

HERE = Path(__file__).parent
RECORDED = HERE / "answers.xz"
ALL_SHAPES = (*SHAPES, TWO_NODES)
LIVES = 200
"""Of each shape."""
POLICY = "single-numa-node"

_REMEDY = "run `make kubelet-answers`"


class Recorder:
    """A scheduler that computes the digest of its requests and answers."""

    def __init__(self, scheduler: Scheduler, life: CpuLife) -> None:
        self.results: dict[str, list[tuple[str, str]] | None] = {}
        """Name of a claim -> (request, device); None if it does not fit."""
        self._scheduler = scheduler
        self._digest = hashlib.sha256()
        self._add(life.as_json(POLICY))

    @property
    def digest(self) -> str:
        """The digest of the life and of what was published and claimed."""
        return self._digest.hexdigest()[:16]

    def publish(
        self, slices: Sequence[Mapping[str, object]], classes: Sequence[Mapping[str, object]]
    ) -> None:
        self._add([slices, classes])
        self._scheduler.publish(slices, classes)

    def allocate(self, claim: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._add(claim)
        found = self._scheduler.allocate(claim)
        devices = [(each["request"], each["device"]) for each in found]
        self.results[claim["metadata"]["name"]] = devices or None
        self._add(devices)
        return found

    def free(self, uid: str) -> None:
        self._scheduler.free(uid)

    def _add(self, value: object) -> None:
        self._digest.update(json.dumps(value, separators=(",", ":")).encode())


class Recording:
    """A scheduler that has the recorded outcomes of a life."""

    def __init__(self, outcomes: Mapping[str, Sequence[tuple[str, str]] | None]) -> None:
        self._outcomes = outcomes

    def publish(
        self, slices: Sequence[Mapping[str, object]], classes: Sequence[Mapping[str, object]]
    ) -> None:
        """Do nothing: the answers contain it."""

    def allocate(self, claim: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the recorded devices; raise StaleRecordingError for an unknown claim."""
        name = claim["metadata"]["name"]
        if name not in self._outcomes:
            raise StaleRecordingError(f"{name} was not claimed: {_REMEDY}")
        found = self._outcomes[name]
        if found is None:
            return []
        return [{"request": name, "device": device} for name, device in found]

    def free(self, uid: str) -> None:
        """Do nothing, as above."""


def all_lives() -> list[CpuLife]:
    """Return the lives of all shapes, one shape after the other."""
    return [life_of(seed, shape) for shape in ALL_SHAPES for seed in range(LIVES)]


def record(managers: Path, allocator: Path, path: Path = RECORDED) -> None:
    """Play all lives on the programs, and record their answers."""
    lives = all_lives()
    of_kubelet_too = lives[: len(SHAPES) * LIVES]
    answers = list(ask(managers, [life.as_json(POLICY) for life in of_kubelet_too]))
    lines = [json.dumps(_versions())]
    with Allocator(allocator) as scheduler:
        for number, life in enumerate(lives):
            each = of_kubelet(life, answers[number]) if number < len(answers) else {}
            kubelet = {
                name: found if isinstance(found, str) else found[2] for name, found in each.items()
            }
            lines.append(_line(life, number, scheduler, kubelet))
        examples.record(scheduler)
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def _line(life: CpuLife, number: int, scheduler: Scheduler, kubelet: Mapping[str, Any]) -> str:
    found, digests = {}, []
    for position, order in enumerate(Order):
        recorder = Recorder(scheduler, life)
        play(life, len(Order) * number + position, order, recorder)
        digests.append(recorder.digest)
        found[order.value] = recorder.results
    return json.dumps([_digest(digests, kubelet), kubelet, found], separators=(",", ":"))


def _digest(digests: Iterable[str], kubelet: Mapping[str, Any]) -> str:
    text = json.dumps([*digests, kubelet], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recorded(
    path: Path = RECORDED,
) -> Iterator[tuple[CpuLife, Mapping[str, Any], Mapping[Order, Outcomes]]]:
    """Yield each life, the kubelet's outcomes, and those of the scheduler by order.

    Plays the lives; raises StaleRecordingError if something else would be published.
    """
    with lzma.open(path, "rt") as lines:
        head, *rest = map(json.loads, lines)
    if head != _versions():
        raise StaleRecordingError(f"{path}: {head} is not the version of go.mod: {_REMEDY}")
    lives = all_lives()
    if len(rest) != len(lives):
        raise StaleRecordingError(f"{path}: {len(rest)} lives, not {len(lives)}: {_REMEDY}")
    for number, (life, (its_digest, kubelet, found)) in enumerate(zip(lives, rest, strict=True)):
        outcomes: dict[Order, Outcomes] = {}
        digests = []
        for position, order in enumerate(Order):
            recorder = Recorder(Recording(found[order.value]), life)
            outcomes[order] = play(life, len(Order) * number + position, order, recorder)
            digests.append(recorder.digest)
        if _digest(digests, kubelet) != its_digest:
            raise StaleRecordingError(f"{path}: life {number} is another one: {_REMEDY}")
        yield life, kubelet, outcomes


def _versions() -> dict[str, str]:
    text = (HERE / "go" / "go.mod").read_text()
    name = "k8s.io/dynamic-resource-allocation"
    found = re.search(rf"^\t{re.escape(name)} (v\S+)$", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"go.mod does not require {name}")
    return {"kubernetes": kubernetes_version(), "allocator": found[1]}


def main() -> None:
    """Record the answers."""
    parser = argparse.ArgumentParser(description="Record the scheduler's allocator.")
    parser.add_argument("--managers", type=Path, help="tests/kubelet_managers/go, built already")
    parser.add_argument("--allocator", type=Path, help="the Go program here, built already")
    arguments = parser.parse_args()
    record(arguments.managers or build(), arguments.allocator or build(SOURCE, PROGRAM))


if __name__ == "__main__":
    main()
