"""Which pods may be evicted, and what an answer means."""

import json
from typing import Any

import pytest

from nri_numamem.export.evictions import (
    Evicted,
    Outcome,
    evicted,
    eviction,
    eviction_path,
    obstacle,
)


def pod(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a pod of a ReplicaSet; `changes` are those of its metadata, and `volumes`."""
    volumes = changes.pop("volumes", [])
    metadata = {
        "uid": "u1",
        "ownerReferences": [{"kind": "ReplicaSet", "controller": True}],
        **changes,
    }
    return {"metadata": metadata, "spec": {"volumes": volumes}}


_SCRATCH = [{"name": "scratch", "emptyDir": {}}]
_SHARED = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "conf", "configMap": {}}]


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        (pod(), ""),
        (pod(volumes=_SHARED), ""),
        (pod(uid="u2"), "it was made anew meanwhile"),
        (pod(ownerReferences=[]), "it has no controller, so nothing would make it again"),
        (
            pod(ownerReferences=[{"kind": "Node", "controller": False}]),
            "it has no controller, so nothing would make it again",
        ),
        (
            pod(ownerReferences=[{"kind": "DaemonSet", "controller": True}]),
            "it is of a DaemonSet, and would come back to this host at once",
        ),
        (
            pod(annotations={"kubernetes.io/config.mirror": "x"}),
            "it is a mirror pod, which the kubelet makes from a file",
        ),
        (
            pod(volumes=_SCRATCH),
            "its volume scratch is local; the annotation movable.numamem.io would allow it",
        ),
        (pod(volumes=_SCRATCH, annotations={"movable.numamem.io": "true"}), ""),
        (
            pod(volumes=[{"name": "data", "hostPath": {"path": "/x"}}]),
            "its volume data is local; the annotation movable.numamem.io would allow it",
        ),
        ({}, "it was made anew meanwhile"),
        ({"metadata": {"uid": "u1", "ownerReferences": "x"}, "spec": 7}, "it has no controller"),
    ],
)
def test_a_pod_that_would_not_come_back_or_lose_data_is_not_evicted(
    document: dict[str, Any], cause: str
) -> None:
    found = obstacle(document, "u1")
    assert found == cause or (cause and found.startswith(cause))


def test_the_request_names_the_pod_and_its_uid() -> None:
    assert eviction_path("ml", "a") == "/api/v1/namespaces/ml/pods/a/eviction"
    assert json.loads(eviction("ml", "a", "u1")) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "ml", "name": "a"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (201, Outcome.DONE),
        (200, Outcome.DONE),
        (404, Outcome.GONE),
        (429, Outcome.WAIT),
        (500, Outcome.WAIT),
        (503, Outcome.WAIT),
        (403, Outcome.FAILED),
        (401, Outcome.FAILED),
        (400, Outcome.FAILED),
    ],
)
def test_the_status_decides(status: int, outcome: Outcome) -> None:
    assert evicted(status, {"message": "why"}).outcome is outcome


def test_the_cause_is_the_message_of_the_server() -> None:
    assert evicted(429, {"message": "x" * 400}).cause == f"{'x' * 300}... (400 characters)"
    assert evicted(429, {}) == Evicted(Outcome.WAIT, "HTTP 429")
    assert evicted(201, {"message": "no"}) == Evicted(Outcome.DONE)
