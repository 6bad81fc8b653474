"""Scenario documents on a small machine, and their results."""

from typing import Any

from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import WrittenState, scenario_from_document

GI = 1 << 30

Document = dict[str, Any]


def pod(uid: str, memory: str = "1Gi", *, containers: int = 1, init: str = "") -> Document:
    def container(name: str, amount: str) -> Document:
        return {"name": name, "resources": {"limits": {"cpu": 1, "memory": amount}}}

    spec: Document = {"containers": [container(f"c{i}", memory) for i in range(containers)]}
    if init:
        spec["initContainers"] = [container("init", init)]
    return {"metadata": {"uid": uid}, "spec": spec}


def scenario(*steps: Document, **parts: Document | list[Document]) -> Document:
    """Two nodes of 11Gi, of which 1Gi each is reserved."""
    reserved = [{"numaNode": n, "limits": {"memory": "1Gi"}} for n in (0, 1)]
    document = {
        "machine": {"nodes": [{"id": n, "memory": "11Gi"} for n in (0, 1)]},
        "steps": list(steps),
        **parts,
    }
    settings = document.get("settings", {})
    assert isinstance(settings, dict)
    return {**document, "settings": {"reservedMemory": reserved, **settings}}


def outcomes(document: Document, state: WrittenState | None = None) -> list[Outcome]:
    return list(play(scenario_from_document(document, state)))


def documents(document: Document) -> list[Document]:
    return [dict(outcome.document) for outcome in outcomes(document)]
