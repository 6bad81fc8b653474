"""The kubelet's static CPU manager beside its Memory Manager: recorded answers to lives with CPUs.

`static_cpus.xz` has a line of JSON with the Kubernetes version, then one per life of ``cpu_lives``:
[digest, {pod: [CPUs, whether they are exclusive, nodes of the memory] or the reason of a refusal}].
Pods for which the host has no room are not listed. The digest is that of the life and its answers.

    python -m tests.kubelet_managers.static_cpus      builds the Go program and records all answers
"""

import argparse
import hashlib
import json
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nri_numamem.numa import CpuSet, NodeSet
from tests.kubelet_managers.answers import HERE, Answer, ask, build
from tests.kubelet_managers.cpu_lives import CpuLife, all_lives

RECORDED = HERE / "static_cpus.xz"
NO_ROOM = "no room"
_REMEDY = "run `make kubelet-answers`"


@dataclass(frozen=True)
class Assigned:
    """What the kubelet gave to the container of an admitted pod."""

    cpus: CpuSet
    """With shared CPUs: the pool at the time of the admission."""
    is_exclusive: bool
    nodes: NodeSet
    """The nodes of its memory."""


Assignments: TypeAlias = dict[str, Assigned | str]
"""Pod -> what it got, or the reason of its refusal."""


class StaleRecordingError(Exception):
    """The recording does not belong to the lives or to the version, or was changed."""


def of_kubelet(life: CpuLife, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the answers of the Go program as they are recorded."""
    if answers[0].get("reason"):
        raise RuntimeError(f"the kubelet does not start: {answers[0]}")
    found: dict[str, Any] = {}
    for step, answer in zip(life.as_json()["steps"], answers[1:], strict=True):
        name, reason = step.get("admit"), answer.get("reason")
        if name is None or reason == NO_ROOM:
            continue
        if reason:
            found[name] = reason
        else:
            blocks = answer.get("blocks", {}).get(name, {}).get("c", [])
            found[name] = [*answer["cpus"]["c"], blocks[0][0] if blocks else []]
    return found


def line_of(life: CpuLife, found: Mapping[str, Any]) -> str:
    """Return the line of the recording."""
    return _compact([digest(life, found), found])


def digest(life: CpuLife, found: Mapping[str, Any]) -> str:
    """Return the digest of a life and its answers."""
    return hashlib.sha256(_compact([life.as_json(), found]).encode()).hexdigest()[:12]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def recorded(path: Path = RECORDED) -> list[tuple[CpuLife, Assignments]]:
    """Return the lives and their answers; raise StaleRecordingError if they do not match."""
    with lzma.open(path, "rt") as lines:
        head, *found = map(json.loads, lines)
    if head != {"kubernetes": kubernetes_version()}:
        raise StaleRecordingError(f"{path}: {head} is not the version of go.mod: {_REMEDY}")
    lives = all_lives()
    if len(found) != len(lives):
        raise StaleRecordingError(f"{path}: {len(found)} lives, not {len(lives)}: {_REMEDY}")
    for number, (life, (its_digest, answers)) in enumerate(zip(lives, found, strict=True)):
        if digest(life, answers) != its_digest:
            raise StaleRecordingError(f"{path}: life {number} is another one: {_REMEDY}")
    return [
        (life, {name: _parse(answer) for name, answer in answers.items()})
        for life, (_, answers) in zip(lives, found, strict=True)
    ]


def _parse(answer: str | list[Any]) -> Assigned | str:
    if isinstance(answer, str):
        return answer
    cpus, is_exclusive, nodes = answer
    return Assigned(CpuSet.parse(cpus), is_exclusive, NodeSet(nodes))


def kubernetes_version() -> str:
    """Return the version of k8s.io/kubernetes in the Go program's module."""
    text = (HERE / "go" / "go.mod").read_text()
    found = re.search(r"^\tk8s\.io/kubernetes (v\S+)$", text, re.MULTILINE)
    if found is None:
        raise RuntimeError("go.mod does not require k8s.io/kubernetes")
    return found[1]


def record(program: Path, path: Path = RECORDED) -> None:
    """Ask the Go program, and record its answers."""
    lives = all_lives()
    answers = ask(program, [life.as_json() for life in lives])
    lines = [_compact({"kubernetes": kubernetes_version()})]
    lines += [
        line_of(life, of_kubelet(life, each)) for life, each in zip(lives, answers, strict=True)
    ]
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    """Record the answers."""
    parser = argparse.ArgumentParser(description="Record the kubelet's static CPU manager.")
    parser.add_argument("--program", type=Path, help="a Go program that is built already")
    record(parser.parse_args().program or build())


if __name__ == "__main__":
    main()
