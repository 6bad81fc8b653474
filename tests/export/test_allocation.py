"""What a claim has of a host, and the text for each claim that cannot be prepared."""

from typing import Any

import pytest

from nri_numamem.export.allocation import AllocatedDevice, AllocationError, allocation_of
from nri_numamem.memorymanager.claims import Claim

GI = 1 << 30
UID = "8a6ff0a5-31f9-4b0e-9c52-6f0a2b1c3d4e"


def result(**changes: object) -> dict[str, Any]:
    """Return a result without the keys that are None."""
    whole = {
        "request": "mem",
        "driver": "numamem.io",
        "pool": "worker-3",
        "device": "memory-1",
        "consumedCapacity": {"size": "40Gi"},
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def claim(*results: object, **status: object) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "team", "name": "app-numa", "uid": UID},
        "status": {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": "app", "uid": "pod-1"}],
            **status,
        },
    }


def test_a_claim_of_one_device() -> None:
    found = allocation_of(claim(result()), UID, "worker-3")
    amounts = {1: {"memory": 40 * GI}}
    assert found.claim == Claim(UID, "team", "app-numa", {"mem": amounts}, frozenset({"pod-1"}))
    assert found.devices == (AllocatedDevice("mem", "memory-1", "", amounts),)


def test_results_of_a_request_are_added_up_and_those_of_other_drivers_left_out() -> None:
    found = allocation_of(
        claim(
            {"request": "cpus", "driver": "dra.cpu", "pool": "elsewhere", "device": "cpudevnuma1"},
            result(request="mem/near", consumedCapacity={"size": "1Gi"}, shareID="s-1"),
            result(request="mem/near", consumedCapacity={"size": "2Gi"}, shareID="s-2"),
            result(request="mem/near", device="memory-0", consumedCapacity={"size": "4Gi"}),
            result(request="pages", device="hugepages-2mi-1", consumedCapacity={"size": "8388608"}),
        ),
        UID,
        "worker-3",
    )
    assert found.claim.requests == {
        "mem": {1: {"memory": 3 * GI}, 0: {"memory": 4 * GI}},
        "pages": {1: {"hugepages-2Mi": 8 << 20}},
    }
    assert [(d.request, d.name, d.share_id) for d in found.devices] == [
        ("mem", "memory-1", "s-1"),
        ("mem", "memory-1", "s-2"),
        ("mem", "memory-0", ""),
        ("pages", "hugepages-2mi-1", ""),
    ]


@pytest.mark.parametrize(
    ("consumers", "pods"),
    [
        (None, set()),
        ([], set()),
        (
            [
                {"resource": "pods", "name": "a", "uid": "1"},
                {"apiGroup": "x.io", "resource": "jobs", "name": "b", "uid": "2"},
                {"resource": "pods", "name": "c", "uid": "3"},
            ],
            {"1", "3"},
        ),
    ],
)
def test_the_pods_of_a_claim(consumers: object, pods: set[str]) -> None:
    document = claim(result(), reservedFor=consumers)
    if consumers is None:
        del document["status"]["reservedFor"]
    assert allocation_of(document, UID, "worker-3").claim.pods == pods


def changed(path: str, value: object) -> dict[str, Any]:
    """Return a claim with another value in one place."""
    document = claim(result())
    *parents, last = path.split(".")
    place = document
    for key in parents:
        place = place[key]
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            changed("metadata.uid", "other"),
            (
                "the claim was deleted and made anew: its uid is 'other', the kubelet's is "
                f"'{UID}'; delete the pod"
            ),
        ),
        (changed("status", {}), "the claim is not allocated; wait for the scheduler"),
        (claim(), "the claim has no device of the driver numamem.io"),
        (claim(result(driver="dra.cpu")), "the claim has no device of the driver numamem.io"),
        (
            claim(result(pool="worker-4")),
            (
                "device memory-1 is of the pool worker-4, and this is node worker-3; name the Node "
                "object with --node-name"
            ),
        ),
        (
            claim(result(device="mem-1")),
            "'mem-1' is not a device such as memory-1 or hugepages-2mi-0",
        ),
        (
            claim(result(adminAccess=True)),
            "device memory-1: adminAccess is not supported: memory is charged",
        ),
        (
            claim(result(consumedCapacity=None)),
            (
                "device memory-1 is allocated without an amount: enable DRAConsumableCapacity in "
                "the API server and the scheduler, and create the claim anew"
            ),
        ),
        (
            claim(result(consumedCapacity={"size": "much"})),
            (
                "device memory-1: consumedCapacity.size: 'much' is not a quantity such as 512Mi, "
                "1.5Gi, 100M or 1048576"
            ),
        ),
        (
            claim(result(consumedCapacity={"size": "0"})),
            "device memory-1: consumedCapacity.size is 0",
        ),
        (
            claim(result(consumedCapacity={"cpu": "1"})),
            "not a valid ResourceClaim: size is not a text",
        ),
        ({}, "not a valid ResourceClaim: metadata is not an object"),
        (changed("metadata.name", 7), "not a valid ResourceClaim: name is not a text"),
        (changed("metadata.namespace", ""), "not a valid ResourceClaim: namespace is not a text"),
        (changed("status", None), "not a valid ResourceClaim: status is not an object"),
        (
            changed("status.allocation", []),
            "not a valid ResourceClaim: allocation is not an object",
        ),
        (
            changed("status.allocation.devices.results", {}),
            "not a valid ResourceClaim: results is not a list of objects",
        ),
        (claim("x"), "not a valid ResourceClaim: results is not a list of objects"),
        (claim(result(shareID=3)), "not a valid ResourceClaim: shareID is not a text"),
        (claim(result(request=None)), "not a valid ResourceClaim: request is not a text"),
    ],
)
def test_a_claim_that_cannot_be_prepared(document: dict[str, Any], text: str) -> None:
    with pytest.raises(AllocationError) as found:
        allocation_of(document, UID, "worker-3")
    assert str(found.value) == text
