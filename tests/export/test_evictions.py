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
_TO_ALLOW_IT = 'annotate the pod with movable.numamem.io: "true" to allow it'
_SHARED = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "conf", "configMap": {}}]


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        (pod(), ""),
        (pod(volumes=_SHARED), ""),
        (pod(uid="u2"), "it was recreated in the meantime"),
        (pod(ownerReferences=[]), "it has no controller that would recreate it"),
        (
            pod(ownerReferences=[{"kind": "Node", "controller": False}]),
            "it has no controller that would recreate it",
        ),
        (
            pod(ownerReferences=[{"kind": "DaemonSet", "controller": True}]),
            "it belongs to a DaemonSet, which would recreate it on this host",
        ),
        (
            pod(annotations={"kubernetes.io/config.mirror": "x"}),
            "it is a mirror pod; the kubelet creates it from a manifest file",
        ),
        (
            pod(volumes=_SCRATCH),
            f"its volume scratch is local; {_TO_ALLOW_IT}",
        ),
        (pod(volumes=_SCRATCH, annotations={"movable.numamem.io": "true"}), ""),
        (
            pod(volumes=[{"name": "data", "hostPath": {"path": "/x"}}]),
            f"its volume data is local; {_TO_ALLOW_IT}",
        ),
        ({}, "it was recreated in the meantime"),
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
        (500, Outcome.UNANSWERED),
        (503, Outcome.UNANSWERED),
        (403, Outcome.FAILED),
        (401, Outcome.FAILED),
        (400, Outcome.FAILED),
    ],
)
def test_the_status_decides(status: int, outcome: Outcome) -> None:
    assert evicted(status, {"message": "why"}).outcome is outcome


def test_the_cause_is_the_message_of_the_server() -> None:
    assert evicted(429, {"message": "x" * 400}).cause == f"{'x' * 300}... (400 characters)"
    assert evicted(429, {}) == Evicted(Outcome.WAIT, "HTTP status 429")
    assert evicted(201, {"message": "no"}) == Evicted(Outcome.DONE)
