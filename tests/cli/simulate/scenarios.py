"""Scenario documents for the tests of `simulate`."""

from collections.abc import Sequence
from typing import Any

from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import Scenario, scenario_from_document

GI = 1 << 30
Document = dict[str, Any]


def container(name: str, memory: str, hugepages: str | None = None) -> Document:
    limits = {"cpu": 1, "memory": memory}
    if hugepages is not None:
        limits["hugepages-2Mi"] = hugepages
    return {"name": name, "resources": {"limits": limits}}


def pod(uid: str, *containers: Document, init: Sequence[Document] = ()) -> Document:
    return {
        "metadata": {"uid": uid, "name": f"pod-{uid}"},
        "spec": {"initContainers": list(init), "containers": list(containers)},
    }


def removal(uid: str) -> Document:
    return {"remove": {"pod": uid}}


def document(steps: list[Document], pods: list[Document], **more: Any) -> Document:  # noqa: ANN401
    nodes = [{"id": n, "memory": "8Gi", "hugepages": {"2Mi": 512}} for n in (0, 1, 3)]
    return {"machine": {"nodes": nodes}, "pods": pods, "steps": steps, **more}


def held(memory: object, *nodes: int, hugepages: object = None) -> list[Document]:
    blocks = [{"numaAffinity": list(nodes), "type": "memory", "size": memory}]
    if hugepages is not None:
        blocks.append({**blocks[0], "type": "hugepages-2Mi", "size": hugepages})
    return blocks


def admit(uid: str) -> Document:
    return {"admit": {"pod": uid}}


INIT = [container("i1", "2Gi"), container("i2", "6Gi")]
SIDECAR = {**container("log", "512Mi"), "restartPolicy": "Always"}
PODS = [
    pod("a", container("m", "5Gi", "256Mi"), container("n", "1Gi", "0"), init=[*INIT, SIDECAR]),
    pod("b", container("x", "12Gi", "100Mi")),
    pod("c", container("x", "30Gi")),
    {"metadata": {"uid": "d"}, "spec": {"containers": [{"name": "best-effort"}]}},
]
STEPS = [
    *map(admit, "abcd"),
    removal("b"),
    removal("c"),
    admit("c"),
    removal("a"),
    admit("b"),
    admit("b"),
    admit("a"),
]
STATE = {
    "entries": {
        "old": {"w": held("3Gi", 0)},
        "b": {"x": held("12Gi", 1, 3, hugepages="100Mi")},
    }
}


def played(source: Document) -> tuple[Scenario, list[Outcome]]:
    scenario = scenario_from_document(source)
    return scenario, list(play(scenario))
