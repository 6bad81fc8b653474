"""Paths, bodies, and what each answer of the API server means."""

import json

import pytest

from nri_numamem.export.requests import (
    FailureKind,
    all_objects_path,
    apply_path,
    claim_path,
    failure_of_apply,
    failure_of_claim,
    failure_of_delete,
    failure_of_node,
    node_path,
    object_path,
    owned_by,
    slice_path,
    uid_of,
)

OBJECT = {"kind": "NodeResourceTopology", "metadata": {"name": "w"}}


def test_paths() -> None:
    objects = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    assert node_path("w.x") == "/api/v1/nodes/w.x"
    assert object_path("w") == f"{objects}/w"
    # Not `force`: that would take the lists of another exporter.
    assert apply_path("w") == f"{objects}/w?fieldManager=nri-numamem"
    label = "app.kubernetes.io%2Fmanaged-by%3Dnri-numamem"
    assert all_objects_path() == f"{objects}?labelSelector={label}"


def test_paths_of_resource_claims() -> None:
    assert claim_path("ns", "app") == "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/app"
    assert slice_path("w-x") == "/apis/resource.k8s.io/v1/resourceslices/w-x"


@pytest.mark.parametrize(
    ("status", "document", "kind", "remedy"),
    [
        (200, {"kind": "Status"}, "server_error", "correct the address of the API server"),
        (403, {"message": "no"}, "forbidden", "grant this user get of resourceclaims"),
        (404, {}, "rejected", "delete the pod, or create the claim that it names"),
        (500, {}, "server_error", "see the log of the API server"),
    ],
)
def test_answers_that_are_no_claim(
    status: int, document: dict[str, object], kind: str, remedy: str
) -> None:
    failure = failure_of_claim(status, document)
    assert failure is not None
    assert (failure.kind, failure.remedy, failure.status) == (kind, remedy, status)


def test_an_answer_that_is_a_claim() -> None:
    assert failure_of_claim(200, {"kind": "ResourceClaim"}) is None


def test_the_node_owns_the_object() -> None:
    before = json.dumps(OBJECT)
    body = json.loads(owned_by(OBJECT, "w", "u-1"))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "w", "uid": "u-1"}
    assert body["metadata"] == {"name": "w", "ownerReferences": [owner]}
    assert json.dumps(OBJECT) == before


@pytest.mark.parametrize(
    ("document", "uid"),
    [
        ({"metadata": {"uid": "u"}}, "u"),
        ({"metadata": {"uid": 1}}, ""),
        ({"metadata": []}, ""),
        ({}, ""),
    ],
)
def test_uids(document: dict[str, object], uid: str) -> None:
    assert uid_of(document) == uid


STATUSES = [
    (400, FailureKind.REJECTED),
    (401, FailureKind.UNAUTHORIZED),
    (403, FailureKind.FORBIDDEN),
    (409, FailureKind.CONFLICT),
    (422, FailureKind.REJECTED),
    (429, FailureKind.SERVER_ERROR),
    (500, FailureKind.SERVER_ERROR),
    (503, FailureKind.SERVER_ERROR),
    (302, FailureKind.SERVER_ERROR),
]


@pytest.mark.parametrize(("status", "kind"), [*STATUSES, (404, FailureKind.NO_CRD)])
def test_failures_of_a_write(status: int, kind: FailureKind) -> None:
    failure = failure_of_apply(status, {"message": "no\nway"}, 3.0)
    assert failure is not None
    assert (failure.kind, failure.cause, failure.status) == (kind, "no\nway", status)
    assert failure.retry_after_s == 3.0
    assert failure.remedy


@pytest.mark.parametrize(("status", "kind"), [*STATUSES, (404, FailureKind.NO_NODE)])
def test_failures_of_a_node(status: int, kind: FailureKind) -> None:
    failure = failure_of_node(status, {}, 0.0)
    assert failure is not None
    assert (failure.kind, failure.cause) == (kind, f"HTTP status {status}")


@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_failures_of_a_deletion(status: int, kind: FailureKind) -> None:
    failure = failure_of_delete(status, {"message": 7})
    assert failure is not None
    assert (failure.kind, failure.cause) == (kind, f"HTTP status {status}")


def test_success() -> None:
    assert failure_of_apply(200, OBJECT, 0.0) is None
    assert failure_of_apply(201, OBJECT, 0.0) is None
    assert failure_of_node(200, {"metadata": {"uid": "u"}}, 0.0) is None
    assert failure_of_delete(200, {"kind": "Status"}) is None
    assert failure_of_delete(404, {}) is None


def test_a_server_that_is_none_of_kubernetes() -> None:
    """A proxy that wants a password replies with status 200 and a page."""
    for failure in (
        failure_of_apply(200, {}, 0.0),
        failure_of_node(200, {}, 0.0),
        failure_of_delete(200, {}),
    ):
        assert failure is not None
        assert failure.kind is FailureKind.SERVER_ERROR
        assert "not a Kubernetes API server" in failure.cause


@pytest.mark.parametrize(
    ("text", "managers"),
    [
        ('Apply failed with 1 conflict: conflict with "nfd" using v1: .zones', ("nfd",)),
        (
            (
                'Apply failed with 3 conflicts: conflicts with "rte" using v1:\n- .zones\n'
                'conflicts with "nfd" with subresource "x":\n- .a\n- .b'
            ),
            ("nfd", "rte"),
        ),
        ("Operation cannot be fulfilled", ()),
    ],
)
def test_a_conflict_names_the_other_writers(text: str, managers: tuple[str, ...]) -> None:
    failure = failure_of_apply(409, {"message": text}, 0.0)
    assert failure is not None
    assert failure.field_managers == managers
    other = failure_of_apply(500, {"message": text}, 0.0)
    assert other is not None
    assert other.field_managers == ()


def test_a_long_cause_is_cut() -> None:
    failure = failure_of_apply(500, {"message": "x" * 9999}, 0.0)
    assert failure is not None
    assert len(failure.cause) == 500
