"""The share of each node for claims: other pods do not get it, and slices have no more."""

from dataclasses import replace
from typing import Any

import pytest

from nri_numamem.engine.core.allowed_nodes import all_rooms, left_for_claims
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.export.noderesourcetopology import Host as ExportedHost
from nri_numamem.export.resourceslice import resource_slice
from nri_numamem.numa.preferences import Strategy
from tests.engine.conftest import MI, PAGE, four_nodes
from tests.engine.features.claims.claim_host import (
    WITH_CLAIMS,
    ClaimHost,
    claim_of,
    memory_claim,
    mems,
)
from tests.engine.features.earmarks.earmark_host import WITH_EARMARKS, EarmarkHost, earmark
from tests.property.late_claims import run

HALF = replace(WITH_CLAIMS, claims_share_percent=50)
POD_SCOPE = replace(HALF, topology_manager_scope="pod")
SHARE = 464
"""MiB, of 928."""


@pytest.fixture(name="host")
def _host() -> ClaimHost:
    return ClaimHost(HALF)


def create(host: ClaimHost, uid: str, size: int) -> str:
    return mems(host.create(host.run(uid, memory=size * MI), memory=size * MI))


def restart(host: ClaimHost, policy: Policy) -> None:
    """Start the plugin again with other settings."""
    host.engine = Engine(new_context(four_nodes(), policy), host.engine.state)
    host.synchronize_with(tuple(host.prepared.values()))


def sizes(host: ClaimHost) -> dict[str, int]:
    """Return device -> MiB in the slice."""
    exported = ExportedHost("worker", host.engine.context, host.engine.state)
    document: Any = resource_slice(exported)
    devices = document["spec"]["devices"]
    return {each["name"]: int(each["capacity"]["size"]["value"]) // MI for each in devices}


def test_other_pods_get_what_the_share_leaves(host: ClaimHost) -> None:
    assert create(host, "a", SHARE) == "0"
    assert create(host, "b", 400) == "1"
    assert create(host, "c", 100) == "2"
    assert create(host, "d", 64) == "1"


def test_a_refusal_names_the_share(host: ClaimHost) -> None:
    text = create(host, "a", SHARE + 1)
    assert "; 50 % of each NUMA node is set aside for resource claims; " in text
    (record,) = host.answers[-1].records
    assert "50 % of each NUMA node for resource claims" in str(record)


def test_other_pods_are_on_one_node_only(host: ClaimHost) -> None:
    assert "set aside for resource claims" in create(host, "a", 1000)
    assert create(ClaimHost(WITH_CLAIMS), "a", 1000) == "0-1"


@pytest.mark.parametrize("policy", [HALF, POD_SCOPE])
def test_claims_and_other_pods_have_a_node_in_common(policy: Policy) -> None:
    host = ClaimHost(policy)
    for node in range(4):
        assert host.prepare(memory_claim(f"claim-{node}", node, SHARE)).refusal is None
    for node in range(4):
        assert create(host, f"pod-{node}", SHARE) == str(node)
    assert set(host.free()) == {0}


def test_what_claims_have_of_the_share_is_not_set_aside_again(host: ClaimHost) -> None:
    for node in range(4):
        host.prepare(memory_claim(f"claim-{node}", node, 300))
    assert "set aside" in create(host, "a", SHARE + 1)
    assert create(host, "b", SHARE) == "0"


def test_the_share_holds_for_hugepages(host: ClaimHost) -> None:
    pages = {PAGE: 18 * MI}
    pod = host.run("a", memory=100 * MI, hugepages=pages)
    refused = host.create(pod, memory=100 * MI, hugepages=pages).refusal or ""
    assert "set aside for resource claims" in refused
    assert "hugepages-2Mi" in refused


def test_a_pod_that_has_begun_keeps_its_nodes_with_a_larger_share() -> None:
    host = ClaimHost(WITH_CLAIMS)
    assert create(host, "a", 900) == "0"
    restart(host, HALF)
    host.stop(host.newest())
    assert mems(host.create(host.pods["sandbox-a"], memory=900 * MI)) == "0"


def test_a_container_does_not_grow_into_the_share(host: ClaimHost) -> None:
    create(host, "a", 400)
    refused = host.resize(host.newest(), 500 * MI, 500 * MI).refusal or ""
    assert "set aside for resource claims" in refused
    assert host.resize(host.newest(), SHARE * MI, SHARE * MI).refusal is None


def test_the_slice_has_the_share_at_most(host: ClaimHost) -> None:
    expected = {f"memory-{node}": SHARE for node in range(4)}
    expected |= {f"hugepages-2mi-{node}": 16 for node in range(4)}
    assert sizes(host) == expected
    create(host, "a", SHARE)
    host.prepare(memory_claim("claim", 1, 200))
    assert sizes(host) == expected


def test_the_slice_has_less_where_pods_have_some_of_the_share() -> None:
    host = ClaimHost(WITH_CLAIMS)
    create(host, "a", 700)
    restart(host, HALF)
    assert sizes(host)["memory-0"] == 928 - 700


def test_with_a_share_no_claim_is_late() -> None:
    late = run(0.5, Strategy.LOWEST_IDS, pods=600).claims
    assert late.refused > 0
    for plain_share in (0.2, 0.5, 0.8):
        found = run(plain_share, Strategy.LOWEST_IDS, pods=600, claims_share_percent=40).claims
        assert found.bound > 0
        assert found.refused == 0


def test_what_is_left_of_the_share(host: ClaimHost) -> None:
    pages = {"hugepages-2Mi": 16 * MI}
    host.prepare(claim_of("a", mem={0: {"memory": SHARE, "hugepages-2Mi": 16}}))
    host.prepare(memory_claim("b", 1, 400))
    rooms = left_for_claims(host.engine.context, host.engine.state)
    assert {room.nodes.mask: room.amounts for room in rooms.values()} == {
        0b10: {"memory": (SHARE - 400) * MI, **pages},
        0b100: {"memory": SHARE * MI, **pages},
        0b1000: {"memory": SHARE * MI, **pages},
    }
    without = ClaimHost(WITH_CLAIMS).engine
    assert left_for_claims(without.context, without.state) == {}


def test_the_share_of_claims_does_not_hide_earmarks() -> None:
    host = EarmarkHost(replace(WITH_EARMARKS, claims_share_percent=50))
    host.make(earmark("e1", "0", 100, to="big"))
    rooms = all_rooms(host.engine.context, host.engine.state).values()
    found = sorted((str(room.nodes), room.amounts["memory"] // MI) for room in rooms)
    assert found == [("0", 100), ("0", SHARE), ("1", SHARE), ("2", SHARE), ("3", SHARE)]
