"""Templates of claims: requests, their order, constraints, and the pod that uses the claim.

tests/scheduler_allocator shows what the scheduler's allocator does with them.
"""

from typing import Any

import pytest

from nri_numamem.export.claimtemplate import (
    DEVICES_MOST,
    GROUPS_MOST,
    NODES_MOST,
    Needs,
    claim_spec,
    claim_template,
    pod_with_claim,
)
from nri_numamem.export.resourceslice import NUMA_NODE, device_classes

GI = 1 << 30
CONSTRAINTS_MOST = 32
"""The limit of the API server."""
ALL = Needs({"hugepages-2Mi": GI, "hugepages-1Gi": 4 * GI, "memory": 40 * GI}, 8, ("a", "b", "a"))


def devices_of(needs: Needs) -> dict[str, Any]:
    found: Any = claim_spec(needs)["devices"]
    return dict(found)


def names(needs: Needs) -> list[str]:
    return [request["name"] for request in devices_of(needs)["requests"]]


def amounts(needs: Needs) -> dict[str, Any]:
    """Return request -> (class, amounts); of the first alternative."""
    found = {}
    for request in devices_of(needs)["requests"]:
        wanted = request.get("exactly") or request["firstAvailable"][0]
        capacity = wanted.get("capacity", {}).get("requests")
        found[request["name"]] = wanted["deviceClassName"], capacity
    return found


def test_one_node_has_memory_hugepages_cpus_and_devices_in_this_order() -> None:
    assert amounts(ALL) == {
        "mem": ("dra.memory", {"size": "40Gi"}),
        "hugepages-1gi": ("dra.hugepages-1g", {"size": "4Gi"}),
        "hugepages-2mi": ("dra.hugepages-2m", {"size": "1Gi"}),
        "cpus": ("dra.cpu", {"dra.cpu/cpu": "8"}),
        "device-0": ("a", None),
        "device-1": ("b", None),
        "device-2": ("a", None),
    }
    assert ALL.device_count == 7
    assert devices_of(ALL)["constraints"] == [{"requests": names(ALL), "matchAttribute": NUMA_NODE}]


def test_memory_on_one_node_needs_no_constraint() -> None:
    needs = Needs({"memory": GI})
    assert "constraints" not in devices_of(needs)
    assert names(needs) == ["mem"]


def test_memory_on_several_nodes_is_one_request_that_counts_them() -> None:
    needs = Needs({"memory": 100 * GI}, nodes=4)
    wanted = {
        "deviceClassName": "dra.memory-multi-numa",
        "capacity": {"requests": {"size": "25Gi"}},
        "count": 4,
    }
    alternatives = [{"name": "near", **wanted}, {"name": "any", **wanted}]
    assert devices_of(needs) == {
        "requests": [{"name": "mem", "firstAvailable": alternatives}],
        "constraints": [{"requests": ["mem/near"], "matchAttribute": "numamem.io/socket"}],
    }
    assert needs.device_count == 4


def test_several_nodes_with_cpus_have_equal_groups_that_are_near_together_or_not_at_all() -> None:
    needs = Needs({"memory": 100 * GI}, 8, nodes=2)
    assert amounts(needs) == {
        "mem-0": ("dra.memory-multi-numa", {"size": "50Gi"}),
        "cpus-0": ("dra.cpu", {"dra.cpu/cpu": "4"}),
        "mem-1": ("dra.memory-multi-numa", {"size": "50Gi"}),
        "cpus-1": ("dra.cpu", {"dra.cpu/cpu": "4"}),
    }
    assert devices_of(needs)["constraints"] == [
        {"requests": ["mem-0", "cpus-0"], "matchAttribute": NUMA_NODE},
        {"requests": ["mem-1", "cpus-1"], "matchAttribute": NUMA_NODE},
        {"requests": ["mem-0", "mem-1"], "distinctAttribute": NUMA_NODE},
        {"requests": ["mem-0/near", "mem-1/near"], "matchAttribute": "numamem.io/socket"},
        {"requests": ["mem-0/near", "mem-1/any"], "matchAttribute": NUMA_NODE},
        {"requests": ["mem-0/any", "mem-1/near"], "matchAttribute": NUMA_NODE},
    ]


def test_the_devices_of_a_class_go_to_the_nodes_in_turn() -> None:
    needs = Needs({"memory": 2 * GI}, 0, ("gpu", "nic", "gpu", "gpu"), 2)
    assert names(needs) == ["mem-0", "device-0", "device-1", "device-3", "mem-1", "device-2"]
    assert needs.device_count == 6
    alone = Needs({"memory": 2 * GI}, 0, ("gpu",), 2)
    assert {"requests": ["mem-1"], "matchAttribute": NUMA_NODE} not in devices_of(alone)[
        "constraints"
    ]


@pytest.mark.parametrize(
    ("size_bytes", "nodes", "part"), [(4097, 1, "8Ki"), (3 * 4096, 2, "8Ki"), (8192, 2, "4Ki")]
)
def test_parts_are_rounded_up_to_whole_pages(size_bytes: int, nodes: int, part: str) -> None:
    needs = Needs({"memory": size_bytes}, nodes=nodes)
    assert amounts(needs)["mem"][1] == {"size": part}


@pytest.mark.parametrize("nodes", [1, 2, GROUPS_MOST, NODES_MOST])
def test_a_claim_names_existing_classes_requests_and_alternatives(nodes: int) -> None:
    needs = Needs({"memory": 48 * GI, "hugepages-2Mi": 48 << 20}, 3 * nodes, ("x",) * 8, nodes)
    assert needs.device_count == 3 * nodes + 8 <= DEVICES_MOST
    found = devices_of(needs)
    own: list[Any] = list(device_classes(needs.amounts))
    classes = {"dra.cpu", "x", *(each["metadata"]["name"] for each in own)}
    assert {device_class for device_class, _ in amounts(needs).values()} <= classes
    known = set(names(needs))
    assert len(known) == len(found["requests"]) <= DEVICES_MOST
    for request in found["requests"]:
        known |= {f"{request['name']}/{each['name']}" for each in request.get("firstAvailable", ())}
    assert len(found["constraints"]) <= CONSTRAINTS_MOST
    assert all(set(each["requests"]) <= known for each in found["constraints"])


def test_the_template_has_the_claim() -> None:
    assert claim_template("upf", ALL) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "upf"},
        "spec": {"spec": claim_spec(ALL)},
    }


def test_the_pod_uses_the_claim_and_repeats_its_amounts() -> None:
    pod: Any = pod_with_claim("upf", ALL)
    assert pod["metadata"] == {"name": "upf"}
    (claim,) = pod["spec"]["resourceClaims"]
    assert claim == {"name": "numa", "resourceClaimTemplateName": "upf"}
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"] == {
        "cpu": "8",
        "memory": "40Gi",
        "hugepages-1Gi": "4Gi",
        "hugepages-2Mi": "1Gi",
    }


def test_the_pod_has_what_all_nodes_give_together() -> None:
    pod: Any = pod_with_claim("app", Needs({"memory": 3 * 4096}, nodes=2))
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"memory": "16Ki"}


def test_a_pod_does_not_repeat_what_its_claim_counts_for_the_node() -> None:
    pod: Any = pod_with_claim("upf", ALL, is_counted_for_node=True)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "claims": [{"name": "numa"}],
        "requests": {"cpu": "8"},
        "limits": {"cpu": "8"},
    }
    pod = pod_with_claim("app", Needs({"memory": 4096}), is_counted_for_node=True)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"claims": [{"name": "numa"}]}
