"""Claims in manifests: what a pod and its containers name, and the objects in the same file."""

from typing import Any

import pytest

from nri_numamem.kubelet.claims import PodClaim, claim_specs, claims_of, users_of
from nri_numamem.kubelet.workload import Workload, WorkloadError, workloads_of

SPEC = {
    "resourceClaims": [
        {"name": "numa", "resourceClaimTemplateName": "app"},
        {"name": "gpu", "resourceClaimName": "shared"},
        {"name": "neither"},
    ],
    "initContainers": [{"name": "load", "resources": {"claims": [{"name": "gpu"}]}}],
    "containers": [
        {
            "name": "a",
            "resources": {"claims": [{"name": "numa", "request": "mem"}, {"name": "gpu"}]},
        },
        {"name": "b"},
    ],
}


def workload(spec: object, kind: str = "Pod") -> Workload:
    body = spec if kind == "Pod" else {"template": {"spec": spec}}
    document = {"kind": kind, "metadata": {"name": "app", "namespace": "shop"}, "spec": body}
    (found,) = workloads_of(document)
    return found


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_the_claims_of_a_pod(kind: str) -> None:
    assert claims_of(workload(SPEC, kind)) == (
        PodClaim("numa", ("ResourceClaimTemplate", "shop", "app")),
        PodClaim("gpu", ("ResourceClaim", "shop", "shared")),
    )
    assert claims_of(workload({"containers": []})) == ()


def test_the_containers_that_use_claims() -> None:
    assert users_of(workload(SPEC)) == {
        "load": [("gpu", "")],
        "a": [("numa", "mem"), ("gpu", "")],
    }


def test_the_specs_in_a_file() -> None:
    def object_of(kind: str, spec: object, **metadata: str) -> dict[str, Any]:
        return {"kind": kind, "metadata": {"name": "app", **metadata}, "spec": spec}

    documents = [
        None,
        object_of("Service", 1),
        {"kind": "List", "items": [object_of("ResourceClaimTemplate", {"spec": 2})]},
        object_of("ResourceClaim", 3, namespace="shop"),
        object_of("ResourceClaimTemplate", 4, namespace="shop"),
        {"kind": "ResourceClaim"},
    ]
    assert claim_specs(documents) == {
        ("ResourceClaimTemplate", "default", "app"): 2,
        ("ResourceClaim", "shop", "app"): 3,
        ("ResourceClaimTemplate", "shop", "app"): 4,
    }


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"resourceClaims": {}}, r"spec\.resourceClaims: expected a list"),
        ({"resourceClaims": [1]}, r"spec\.resourceClaims\[0\]: expected a mapping"),
    ],
)
def test_an_invalid_pod(spec: object, place: str) -> None:
    with pytest.raises(WorkloadError, match=place):
        claims_of(workload(spec))


def test_invalid_containers() -> None:
    broken = {"containers": [{"name": "a", "resources": {"claims": 1}}]}
    with pytest.raises(WorkloadError, match=r"spec\.containers\[0\]\.resources\.claims: expected"):
        users_of(workload(broken))
