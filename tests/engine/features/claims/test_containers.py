"""Containers that use claims: their NUMA nodes, and their limits."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.events import UpdateContainer
from nri_numamem.engine.core.plan import HugepageRoute
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager.claims import Claim, ClaimUse
from nri_numamem.numa import CpuFollowing, NodeSet, Partition
from tests.engine.conftest import MI, PAGE, Answer
from tests.engine.features.claims.claim_host import (
    WITH_CLAIMS,
    ClaimHost,
    claim_of,
    limit,
    memory_claim,
    mems,
    uses,
)

CLAIM = memory_claim("a", 2, 400, "x")


@pytest.fixture
def host() -> ClaimHost:
    return ClaimHost()


def prepared(host: ClaimHost, claim: Claim, qos: str = "besteffort/") -> Answer:
    host.prepare(claim)
    host.run("x", qos)
    return host.ran


@pytest.mark.parametrize("qos", ["", "burstable/", "besteffort/"])
def test_a_container_of_any_class_gets_the_nodes_of_its_claim(host: ClaimHost, qos: str) -> None:
    prepared(host, CLAIM, qos)
    done = host.use(host.pods["sandbox-x"], "main", uses(CLAIM), 400 * MI)
    assert (mems(done), limit(done)) == ("2", None)
    assert host.free() == [928 * MI, 928 * MI, 528 * MI, 928 * MI]
    assert fields_of(done.records[0]) == {
        "pod": "pod-x",
        "namespace": "ns",
        "container": "main",
        "pod_uid": "x",
        "container_id": "sandbox-x-main-0",
        "claims": ["ns/claim-a"],
        "claimed_bytes": {"2": {"memory": 400 * MI}},
        "nodes": "2",
        "adjustment": {"cpuset_mems": "2"},
        "memory_limit_bytes": 400 * MI,
    }


def test_a_container_without_a_limit_gets_what_is_left_of_its_claim(host: ClaimHost) -> None:
    prepared(host, CLAIM)
    pod = host.pods["sandbox-x"]
    assert limit(host.use(pod, "first", uses(CLAIM), 100 * MI)) is None
    done = host.use(pod, "second", uses(CLAIM))
    assert (mems(done), limit(done)) == ("2", 300)
    assert fields_of(done.records[0])["sets_memory_limit"] is True
    assert mems(host.use(pod, "third", uses(CLAIM))) == (
        "numamem: container third of pod ns/pod-x cannot be created: nothing is left of the 400Mi "
        "memory of claim ns/claim-a (the rest has pod-x/first, pod-x/second); set memory limits "
        "that add up to the claim"
    )
    host.stop(host.newest("second"))
    assert limit(host.use(pod, "third", uses(CLAIM))) == 300


def test_a_limit_above_what_is_left_is_refused(host: ClaimHost) -> None:
    prepared(host, CLAIM)
    pod = host.pods["sandbox-x"]
    refused = host.use(pod, "main", uses(CLAIM), 500 * MI)
    assert mems(refused) == (
        "numamem: container main of pod ns/pod-x cannot be created: its memory limit of 500Mi "
        "exceeds what is left of claim ns/claim-a: 400Mi of 400Mi; lower its limit, or claim more"
    )
    assert [each.event for each in refused.records] == ["claim_use_rejected"]
    assert not host.engine.state.claims["a"].users


def test_claims_of_several_containers_and_pods_are_shared(host: ClaimHost) -> None:
    host.prepare(CLAIM)
    for uid in ("x", "y"):
        pod = host.run(uid, "besteffort/")
        assert mems(host.use(pod, "main", uses(CLAIM), 200 * MI)) == "2"
    assert "exceeds what is left" in mems(host.use(pod, "more", uses(CLAIM), 100 * MI))
    host.stop_pod(host.pods["sandbox-x"])
    assert mems(host.use(pod, "more", uses(CLAIM), 100 * MI)) == "2"
    assert host.free()[2] == 528 * MI


def test_a_container_is_created_again_although_its_end_was_not_reported(host: ClaimHost) -> None:
    prepared(host, CLAIM)
    pod = host.pods["sandbox-x"]
    for _attempt in range(2):
        assert mems(host.use(pod, "main", uses(CLAIM), 400 * MI)) == "2"
    (user,) = host.engine.state.claims["a"].users.values()
    assert user.container_id == host.newest("main").container_id
    other = host.run("y", "besteffort/")
    assert "(the rest has pod-x/main)" in mems(host.use(other, "main", uses(CLAIM), 400 * MI))


def test_a_container_can_use_one_request_of_a_claim(host: ClaimHost) -> None:
    claim = claim_of("a", "x", m0={0: {"memory": 300}}, m1={1: {"memory": 200}})
    prepared(host, claim)
    pod = host.pods["sandbox-x"]
    first, both = host.use(pod, "first", uses(claim, "m1")), uses(claim)
    assert (mems(first), limit(first)) == ("1", 200)
    assert "exceeds what is left of claim ns/claim-a: 300Mi of 500Mi" in mems(
        host.use(pod, "second", both, 301 * MI)
    )
    second = host.use(pod, "second", both)
    assert (mems(second), limit(second)) == ("0-1", 300)


def test_the_limit_of_a_container_with_two_claims_counts_for_both(host: ClaimHost) -> None:
    one, other = memory_claim("a", 2, 400, "x"), memory_claim("b", 3, 100, "x")
    host.prepare(one)
    prepared(host, other)
    pod = host.pods["sandbox-x"]
    done = host.use(pod, "main", (*uses(one), *uses(other)), 450 * MI)
    assert mems(done) == "2-3"
    assert "50Mi of 100Mi" in mems(host.use(pod, "next", uses(other), 60 * MI))
    assert "the claims ns/claim-a, ns/claim-b" in mems(
        host.use(pod, "next", (*uses(one), *uses(other)), 60 * MI)
    )


@pytest.mark.parametrize(
    ("shown", "route"), [(None, HugepageRoute.UNIFIED), ({PAGE: 0}, HugepageRoute.LIMITS)]
)
def test_hugepage_limits_are_set(
    host: ClaimHost, shown: dict[int, int] | None, route: HugepageRoute
) -> None:
    claim = claim_of("a", "x", mem={2: {"memory": 100}}, pages={2: {"hugepages-2Mi": 8}})
    prepared(host, claim)
    pod = host.pods["sandbox-x"]
    done = host.use(pod, "main", uses(claim), hugepage_limits=shown)
    assert done.adjustment is not None
    assert dict(done.adjustment.hugepage_limits) == {PAGE: 8 * MI}
    assert done.adjustment.hugepage_route is route
    again = host.use(pod, "more", uses(claim), MI, hugepage_limits={PAGE: 2 * MI})
    assert "its memory limit of 1Mi exceeds what is left of claim ns/claim-a: 0 of 100Mi" in mems(
        again
    )


def test_a_hugepage_limit_above_the_claim_is_refused(host: ClaimHost) -> None:
    claim = claim_of("a", "x", mem={2: {"memory": 100}}, pages={2: {"hugepages-2Mi": 8}})
    prepared(host, claim)
    pod = host.pods["sandbox-x"]
    own = host.use(pod, "own", uses(claim), 50 * MI, hugepage_limits={PAGE: 8 * MI})
    assert own.adjustment is not None
    assert dict(own.adjustment.hugepage_limits) == {}
    refused = host.use(pod, "main", uses(claim), 50 * MI, hugepage_limits={PAGE: 2 * MI})
    assert "its hugepages-2Mi limit of 2Mi exceeds what is left of claim ns/claim-a: 0 of 8Mi" in (
        mems(refused)
    )
    plain = memory_claim("b", 3, 100, "x")
    host.prepare(plain)
    refused = host.use(pod, "main", uses(plain), 50 * MI, hugepage_limits={PAGE: 2 * MI})
    assert "its hugepages-2Mi limit of 2Mi exceeds" in mems(refused)


def test_a_claim_without_memory_for_the_container_is_refused(host: ClaimHost) -> None:
    claim = claim_of("a", "x", mem={2: {"memory": 100}}, pages={2: {"hugepages-2Mi": 8}})
    prepared(host, claim)
    refused = mems(host.use(host.pods["sandbox-x"], "main", uses(claim, "pages")))
    assert refused.endswith(
        "claim ns/claim-a has no memory for it; request device class dra.memory in the same claim"
    )


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (ClaimUse("b", "mem", {2: {"memory": MI}}, "ns/b"), "claim ns/b is not prepared on this"),
        (ClaimUse("b", "mem", {}), "claim b is not prepared on this host"),
        (replace(uses(CLAIM)[0], amounts={1: {"memory": 400 * MI}}), "prepared with other amounts"),
        (replace(uses(CLAIM)[0], request="no"), "prepared with other amounts for its request no"),
    ],
)
def test_a_claim_that_was_not_prepared_so_is_refused(
    host: ClaimHost, use: ClaimUse, text: str
) -> None:
    prepared(host, CLAIM)
    assert text in mems(host.use(host.pods["sandbox-x"], "main", [use], 100 * MI))


def test_claims_are_refused_with_run_unpinned_too() -> None:
    host = ClaimHost(replace(WITH_CLAIMS, when_unsatisfiable="RunUnpinned"))
    prepared(host, CLAIM)
    assert "exceeds" in mems(host.use(host.pods["sandbox-x"], "main", uses(CLAIM), 500 * MI))


def test_nodes_that_a_container_has_already_are_not_set_again(host: ClaimHost) -> None:
    prepared(host, CLAIM)
    done = host.use(host.pods["sandbox-x"], "main", uses(CLAIM), 400 * MI, cpuset_mems="2")
    assert mems(done) == ""
    host.stop(host.newest("main"))
    done = host.use(host.pods["sandbox-x"], "main", uses(CLAIM), 400 * MI, cpuset_mems="0")
    assert mems(done) == "2"


def test_a_claim_outside_of_the_pods_partition_is_refused() -> None:
    db = Partition("db", NodeSet([2]), namespaces=("db",))
    host = ClaimHost(replace(WITH_CLAIMS, partitions=(db,)))
    inside, outside = memory_claim("a", 2, 100, "x"), memory_claim("b", 1, 100, "x")
    host.prepare(inside)
    host.prepare(outside)
    pod = host.run("x", "besteffort/", namespace="db")
    assert mems(host.use(pod, "one", uses(inside))) == "2"
    assert mems(host.use(pod, "two", uses(outside))).endswith(
        "its claims have node 1, but partition db has node 2; select devices by the "
        "attribute partition, 'db' for this pod"
    )


def test_cpus_do_not_follow_the_memory_of_claims() -> None:
    host = ClaimHost(replace(WITH_CLAIMS, cpu_following=CpuFollowing.PREFER))
    prepared(host, CLAIM)
    done = host.use(host.pods["sandbox-x"], "main", uses(CLAIM))
    assert done.adjustment is not None
    assert done.adjustment.cpuset_cpus == ""


def test_a_resize_keeps_to_the_claim(host: ClaimHost) -> None:
    prepared(host, CLAIM)
    pod = host.pods["sandbox-x"]
    host.use(pod, "first", uses(CLAIM), 100 * MI)
    host.use(pod, "second", uses(CLAIM), 100 * MI)
    first = host.newest("first")
    assert host.resize(first, 300 * MI).refusal is None
    refused = host.resize(host.newest("second"), 101 * MI)
    assert refused.refusal == (
        "numamem: container second of pod ns/pod-x cannot be resized: its memory limit of 101Mi "
        "exceeds what is left of claim ns/claim-a: 100Mi of 400Mi (the rest has pod-x/first, "
        "pod-x/second); lower its limit, or claim more"
    )
    assert host.resize(host.newest("first"), 200 * MI).refusal is None
    assert host.resize(host.newest("second"), 101 * MI).refusal is None
    shares = host.handle(UpdateContainer(pod, host.newest("second"), cpu_shares=1024))
    assert shares.refusal is None


def test_a_resize_keeps_the_hugepages(host: ClaimHost) -> None:
    claim = claim_of("a", "x", mem={2: {"memory": 100}}, pages={2: {"hugepages-2Mi": 8}})
    prepared(host, claim)
    pod = host.pods["sandbox-x"]
    host.use(pod, "first", uses(claim), 50 * MI, hugepage_limits={PAGE: 8 * MI})
    host.resize(host.newest("first"), 60 * MI)
    held = host.engine.state.claims["a"].users[host.newest("first").container_id].held_bytes
    assert dict(held) == {"memory": 60 * MI, "hugepages-2Mi": 8 * MI}
