"""Claims beside everything else: pods' limits, Synchronize, machines that change."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.rebuilt import rebuilt
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import Machine
from tests.engine.conftest import MI, PAGE, SETTINGS, four_nodes
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
POD_SCOPE = replace(WITH_CLAIMS, topology_manager_scope="pod")


def test_without_managed_memory_claims_have_no_effect() -> None:
    host = ClaimHost(replace(WITH_CLAIMS, memory_manager_policy="None"))
    assert [type(each).__name__ for each in host.engine.context.features] == []
    assert ClaimHost(SETTINGS).engine.context.all_features != host.engine.context.all_features


# Requests that mirror a claim


def test_a_pod_needs_nothing_for_requests_that_mirror_its_claim() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("x", memory=500 * MI)
    host.create(pod, "side", memory=100 * MI)
    assert host.engine.state.outstanding == {}
    assert mems(host.use(pod, "main", uses(CLAIM), 400 * MI)) == "2"
    assert sum(host.free()) == (4 * 928 - 500) * MI


def test_hugepages_that_mirror_a_claim_are_not_requested_again() -> None:
    host = ClaimHost()
    claim = claim_of("a", "x", mem={2: {"memory": 100}}, pages={2: {"hugepages-2Mi": 8}})
    host.prepare(claim)
    pod = host.run("x", memory=200 * MI, hugepages={PAGE: 10 * MI})
    host.create(pod, "side", memory=100 * MI)
    assert host.free("hugepages-2Mi") == [30 * MI, 32 * MI, 24 * MI, 32 * MI]


def test_in_pod_scope_the_pods_pool_does_not_contain_its_claim() -> None:
    host = ClaimHost(POD_SCOPE)
    host.prepare(CLAIM)
    pod = host.run("x", memory=500 * MI)
    assert sum(host.free()) == (4 * 928 - 500) * MI
    host.create(pod, "side", memory=100 * MI)
    host.use(pod, "main", uses(CLAIM), 400 * MI)
    assert sum(host.free()) == (4 * 928 - 500) * MI


def test_in_pod_scope_a_pod_that_shares_a_claim_gives_back_what_it_does_not_need() -> None:
    host = ClaimHost(POD_SCOPE)
    host.prepare(CLAIM)
    pod = host.run("y", memory=400 * MI)  # prepare is not called for a second pod
    assert sum(host.free()) == (4 * 928 - 800) * MI
    host.use(pod, "main", uses(CLAIM), 400 * MI)
    assert sum(host.free()) == (4 * 928 - 400) * MI


def test_pods_without_claims_are_as_they_were() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("plain", memory=300 * MI)
    assert mems(host.create(pod, memory=300 * MI)) == "0"
    assert host.engine.state.pods["sandbox-plain"].memory_limit_bytes == 300 * MI
    assert host.resize(host.newest(), 310 * MI).refusal is None
    host.handle(events.UpdatePodSandbox(pod))
    host.handle(events.ContainersFound(()))
    host.stop(host.newest())
    host.remove_pod(pod)
    assert host.free() == [928 * MI, 928 * MI, 528 * MI, 928 * MI]


# The end of containers and pods


def test_the_end_of_a_sandbox_ends_its_use_of_claims() -> None:
    for end in (ClaimHost.stop_pod, ClaimHost.remove_pod):
        host = ClaimHost()
        host.prepare(CLAIM)
        pod = host.run("x", "besteffort/")
        host.use(pod, "main", uses(CLAIM))
        host.release(CLAIM)
        other = host.prepare(memory_claim("b", 0, 10))
        assert other.refusal is None
        assert [each.event for each in end(host, pod).records] == ["claim_released"]
        assert host.engine.state.claims.keys() == {"b"}


def test_a_container_that_restarts_gets_the_same_limit() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("x", "besteffort/")
    for _ in range(3):
        assert limit(host.use(pod, "main", uses(CLAIM))) == 400
        host.stop(host.newest())
        host.remove(host.newest()) if host.containers else None


# Synchronize


@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_synchronize_charges_prepared_claims_before_it_places_containers(
    is_new_process: bool,
) -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("x", "besteffort/")
    host.use(pod, "main", uses(CLAIM), 150 * MI)
    plain = host.run("plain", memory=600 * MI)
    host.create(plain, memory=600 * MI)
    free, claims = host.free(), host.engine.state.claims
    if is_new_process:
        host.engine = Engine(host.engine.context)
    host.synchronize_with((CLAIM,))
    assert host.free() == free
    assert host.engine.state.claims == claims
    assert limit(host.use(pod, "more", uses(CLAIM))) == 250


def test_a_synchronize_without_the_files_keeps_the_known_claims() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    host.synchronize_with(None)
    assert host.engine.state.claims.keys() == {"a"}
    restored = restore(snapshot(host.engine.state))
    host.engine = Engine(host.engine.context, restored)
    host.synchronize_with(None)
    assert host.engine.state.claims.keys() == {"a"}
    host.synchronize_with(())
    assert host.engine.state.claims == {}


def test_a_claim_whose_file_is_gone_is_known_by_its_containers() -> None:
    host = ClaimHost()
    claim = claim_of("a", "x", m0={0: {"memory": 300}}, m1={1: {"memory": 200}})
    host.prepare(claim)
    for uid, request in (("x", "m0"), ("y", "m1")):
        pod = host.run(uid, memory=300 * MI)
        host.use(pod, "main", uses(claim, request), 100 * MI)
    host.engine = Engine(host.engine.context)
    host.synchronize_with(())
    found = host.engine.state.claims["a"]
    assert (found.claim, found.is_prepared) == (
        replace(claim, pods=frozenset({"x", "y"})),
        False,
    )
    assert host.free() == [628 * MI, 728 * MI, 928 * MI, 928 * MI]
    assert host.engine.state.pods["sandbox-y"].memory_limit_bytes is None
    for container in list(host.containers.values()):
        host.stop(container)
    assert host.free() == [928 * MI] * 4


def test_a_synchronize_ignores_ended_containers_and_unknown_hooks() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("x", "besteffort/")
    host.use(pod, "main", uses(CLAIM))
    (known,) = host.containers.values()
    unreadable = replace(uses(CLAIM)[0], uid="z", amounts={})
    host.containers["ended"] = replace(known, container_id="ended", ended=True)
    host.containers["odd"] = replace(known, container_id="odd", claims=(unreadable,))
    host.containers["lost"] = replace(known, container_id="lost", sandbox_id="unknown")
    host.synchronize_with((CLAIM,))
    assert host.engine.state.claims.keys() == {"a"}
    assert host.engine.state.claims["a"].users.keys() == {known.container_id}


def test_what_a_claim_exceeds_at_a_synchronize_is_a_shortfall() -> None:
    host = ClaimHost()
    host.synchronize_with((memory_claim("a", 0, 700), memory_claim("b", 0, 700)))
    assert host.free()[0] == 0
    held = host.engine.state.accounting.assignments
    assert [held[uid][HolderKind.CLAIM][0].charged // MI for uid in ("a", "b")] == [700, 228]
    host.release(memory_claim("a", 0, 700))
    assert host.free()[0] == 228 * MI


def test_a_machine_that_changes_keeps_its_claims() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    nodes = four_nodes().nodes
    larger = Machine((replace(nodes[0], memory_bytes=2 << 30), *nodes[1:]))
    host.handle(events.MachineChanged(larger))
    assert host.free()[2] == 528 * MI
    host.handle(events.MachineChanged(Machine((nodes[0], nodes[1], nodes[3]))))
    assert host.engine.state.claims.keys() == {"a"}


def test_a_program_that_reads_the_state_file_charges_the_claims() -> None:
    host = ClaimHost()
    host.prepare(CLAIM)
    pod = host.run("x", "besteffort/")
    host.use(pod, "main", uses(CLAIM))
    read = restore(snapshot(host.engine.state))
    assert read.claims == host.engine.state.claims
    shown = rebuilt(host.engine.context, read)
    assert shown.accounting.machine_state == host.engine.state.accounting.machine_state
