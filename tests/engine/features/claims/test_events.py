"""Claims that the kubelet prepares and releases."""

from nri_numamem.engine.records.plain import fields_of
from tests.engine.conftest import MI
from tests.engine.features.claims.claim_host import ClaimHost, claim_of, memory_claim, uses


def test_a_prepared_claim_is_charged_once() -> None:
    host = ClaimHost()
    claim = memory_claim("a", 1, 300, "pod-1")
    done = host.prepare(claim)
    assert done.refusal is None
    assert host.free() == [928 * MI, 628 * MI, 928 * MI, 928 * MI]
    assert [each.event for each in done.records] == ["claim_prepared"]
    assert fields_of(done.records[0]) == {
        "claim": "claim-a",
        "namespace": "ns",
        "claim_uid": "a",
        "charged_bytes": {"1": {"memory": 300 * MI}},
        "nodes": "1",
        "free_bytes": {"1": {"memory": 628 * MI}},
    }
    assert host.prepare(claim).records == ()
    assert host.free()[1] == 628 * MI


def test_a_second_pod_is_added_to_a_claim() -> None:
    host = ClaimHost()
    host.prepare(memory_claim("a", 1, 300, "pod-1"))
    host.prepare(memory_claim("a", 1, 300, "pod-2"))
    assert host.engine.state.claims["a"].claim.pods == {"pod-1", "pod-2"}


def test_a_claim_without_room_is_refused_with_amounts() -> None:
    host = ClaimHost()
    host.create(host.run("plain"), memory=800 * MI)
    refused = host.prepare(memory_claim("a", 0, 300))
    assert refused.refusal == (
        "numamem: claim ns/claim-a cannot be prepared: NUMA node 0 has memory 128Mi free of 300Mi "
        "requested, 172Mi short; delete the pod, so that the scheduler chooses again"
    )
    assert [each.event for each in refused.records] == ["claim_rejected"]
    assert "claim_rejected" in {type(each).event for each in refused.records}
    assert host.engine.state.claims == {}


def test_a_claim_never_changes_its_amounts() -> None:
    host = ClaimHost()
    host.prepare(memory_claim("a", 0, 300))
    refused = host.prepare(memory_claim("a", 0, 400))
    assert refused.refusal is not None
    assert "claim a was prepared with other amounts: memory 300Mi on NUMA node 0" in refused.refusal


def test_a_released_claim_is_free_again() -> None:
    host = ClaimHost()
    claim = claim_of("a", mem={0: {"memory": 300}}, pages={0: {"hugepages-2Mi": 8}})
    host.prepare(claim)
    done = host.release(claim)
    assert [each.event for each in done.records] == ["claim_released"]
    assert (host.free()[0], host.free("hugepages-2Mi")[0]) == (928 * MI, 32 * MI)
    assert host.engine.state.claims == {}
    assert host.release(claim).records == ()


def test_a_released_claim_stays_charged_until_its_last_container_ends() -> None:
    host = ClaimHost()
    claim = memory_claim("a", 0, 300, "x")
    host.prepare(claim)
    pod = host.run("x", "besteffort/")
    host.use(pod, "main", uses(claim))
    done = host.release(claim)
    assert [each.event for each in done.records] == ["claim_in_use"]
    assert fields_of(done.records[0])["containers"] == ["ns/pod-x/main"]
    assert host.release(claim).records == ()
    assert host.free()[0] == 628 * MI
    ended = host.stop(host.newest("main"))
    assert [each.event for each in ended.records] == ["claim_released"]
    assert host.free()[0] == 928 * MI


def test_a_claim_that_is_prepared_again_while_its_containers_end_stays() -> None:
    host = ClaimHost()
    claim = memory_claim("a", 0, 300, "x")
    host.prepare(claim)
    host.use(host.run("x", "besteffort/"), "main", uses(claim))
    host.release(claim)
    host.prepare(claim)
    host.stop(host.newest("main"))
    assert host.free()[0] == 628 * MI
