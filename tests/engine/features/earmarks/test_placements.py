"""What is set aside is free for its beneficiary only."""

from random import Random

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.allowed_nodes import without_earmarks
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.invariants import check_placements, check_sums
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from tests.engine.conftest import MI
from tests.engine.features.claims.claim_host import memory_claim
from tests.engine.features.earmarks.earmark_host import EarmarkHost, earmark, placed


def test_another_pod_gets_what_the_earmark_leaves() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 700, to="big"))
    assert host.place("small", 200) == "0"
    assert host.place("medium", 300) == "1"
    assert host.place("big", 700) == "0"
    assert host.left("e1") == 0


def test_the_accounting_without_earmarks_has_less_free() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 700, to="big"))
    host.make(earmark("e2", "1", 500, to="other"))
    host.place("big", 300)
    state = host.engine.state
    left = without_earmarks(state, MaskedState(state.accounting)).state
    free = {id_: node.table("memory").free // MI for id_, node in left.machine_state.items()}
    assert free == {0: 228, 1: 428, 2: 928, 3: 928}


def test_room_that_becomes_free_is_set_aside() -> None:
    host = EarmarkHost()
    for uid in ("a", "b", "c", "d"):
        host.place(uid, 900)
    host.make(earmark("e1", "1", 900, to="big"))
    host.end("b")
    refused = host.place("thief", 800)
    assert "memory 900Mi on node 1 is set aside for other pods" in refused
    assert host.place("big", 900) == "1"


def test_a_node_with_an_earmark_joins_no_group() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 100, to="big"))
    assert host.place("wide", 1500) == "2-3"
    assert "set aside" in host.place("wider", 1000)
    assert host.place("big", 100) == "0"


def test_the_nodes_of_a_group_get_no_other_assignment() -> None:
    host = EarmarkHost()
    for uid in ("a", "b", "c", "d"):
        host.place(uid, 700)
    host.end("a")
    host.make(earmark("e1", "0-1", 1500, to="wide"))
    assert host.place("small", 100) == "2"
    assert "refused" in host.place("wide", 1500)
    host.end("b")
    assert host.place("again", 100) == "2"
    assert "memory 1.47Gi on nodes 0-1 is set aside for other pods" in host.place("thief", 700)
    assert host.place("wide", 1500) == "0-1"


def test_a_pod_keeps_its_place_on_the_nodes_of_a_group() -> None:
    host = EarmarkHost()
    host.place("stays", 100)
    pod = host.pods["sandbox-stays"]
    host.make(earmark("e1", "0-1", 1500, to="wide"))
    container = next(iter(host.containers.values()))
    host.handle(events.StopContainer(pod, container))
    assert placed(host.create(pod, memory=100 * MI)) == "0"


def test_room_on_a_node_of_a_group_keeps_others_off() -> None:
    host = EarmarkHost()
    host.place("wide", 1500)
    host.make(earmark("e1", "0", 500, to="big"))
    assert host.place("joins", 1000) == "2-3"
    host.end("wide")
    assert host.place("next", 600) == "1"
    assert host.place("big", 500) == "0"


def test_a_pod_that_has_begun_gets_what_it_needs() -> None:
    host = EarmarkHost()
    pods = {uid: host.run(uid, memory=900 * MI) for uid in ("begun", "late")}
    assert placed(host.create(pods["begun"], "first", memory=300 * MI)) == "0"
    for uid in ("b", "c", "d"):
        host.place(uid, 900)
    host.make(earmark("e1", "0", 600, to="big"))
    assert "set aside for other pods" in placed(host.create(pods["late"], memory=100 * MI))
    assert placed(host.create(pods["begun"], "second", memory=600 * MI)) == "0"


def test_only_the_record_names_for_whom_it_is() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0-3", 2000, to="big"))
    pod = host.run("other")
    refused = host.create(pod, memory=100 * MI)
    assert refused.refusal is not None
    assert "memory 1.96Gi on nodes 0-3 is set aside for other pods" in refused.refusal
    assert "pod-big" not in refused.refusal
    found = fields_of(refused.records[0])
    assert found["set_aside"] == ["memory 1.96Gi on nodes 0-3 for ns/pod-big"]


def test_a_resize_cannot_use_it() -> None:
    host = EarmarkHost()
    host.place("a", 200)
    host.make(earmark("e1", "0", 600, to="big"))
    pod, container = host.pods["sandbox-a"], next(iter(host.containers.values()))
    refused = host.handle(events.UpdateContainer(pod, container, memory_limit_bytes=400 * MI))
    assert refused.refusal is not None
    assert "set aside for other pods" in refused.refusal
    assert (
        host.handle(events.UpdateContainer(pod, container, memory_limit_bytes=300 * MI)).refusal
        is None
    )


def test_labels_select_the_beneficiary() -> None:
    host = EarmarkHost()
    host.place("old", 100, app="train")
    host.make(earmark("e1", "1", 600, labels="train"))
    assert host.left("e1") == 600
    assert host.place("other", 900) == "2"
    assert host.place("new", 400, app="train") == "0"
    assert host.left("e1") == 200


def test_what_the_beneficiary_gets_elsewhere_counts() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "3", 500, to="big"))
    assert host.place("big", 500) == "0"
    assert host.left("e1") == 0
    assert host.place("other", 900) == "1"
    assert host.place("another", 900) == "2"
    assert host.place("last", 900) == "3"


def test_a_claim_cannot_use_it_unless_it_is_for_the_claim() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "0", 800, to="late"))
    refused = host.prepare(memory_claim("other", 0, 300)).refusal
    assert refused is not None
    assert "memory 800Mi on node 0 is set aside for other pods" in refused
    assert host.prepare(memory_claim("late", 0, 800)).refusal is None
    assert host.left("e1") == 0
    assert host.free()[0] == 128 * MI


def test_running_containers_win_at_a_synchronize() -> None:
    host = EarmarkHost()
    host.place("a", 600)
    host.make(earmark("e1", "0", 900, to="big"))
    host.synchronize_with(())
    assert host.placed()["a"] == {"main": "0"}
    assert host.left("e1") == 900
    assert host.place("other", 300) == "1"


@pytest.mark.parametrize("seed", range(150))
def test_no_other_pod_takes_what_is_set_aside(seed: int) -> None:
    """Random pods and earmarks: free bytes below what is set aside never shrink for others."""
    random, host, uids = Random(seed), EarmarkHost(), list[str]()
    for step in range(40):
        before = host.engine.state
        action = random.random()
        beneficiary = ""
        if action < 0.2:
            node = random.randrange(4)
            nodes = f"{node}" if random.random() < 0.7 else random.choice(("0-1", "2-3"))
            host.make(earmark(f"e{step}", nodes, random.randrange(100, 900), to=f"b{step}"))
        elif action < 0.3 and host.engine.state.earmarks:
            host.drop(random.choice(sorted(host.engine.state.earmarks)))
        elif action < 0.5 and host.engine.state.earmarks:
            made = host.engine.state.earmarks[random.choice(sorted(host.engine.state.earmarks))]
            beneficiary = made.beneficiary.uid
            if beneficiary not in uids:
                uids.append(beneficiary)
                host.place(beneficiary, made.room.amounts["memory"] // MI)
        elif action < 0.65 and uids:
            host.end(uids.pop(random.randrange(len(uids))))
        else:
            uids.append(f"p{step}")
            host.place(f"p{step}", random.randrange(50, 1200))
        _check(host, before, beneficiary)


def _check(host: EarmarkHost, before: EngineState, beneficiary: str) -> None:
    """Compare free bytes with what is set aside, wherever an event has taken some."""
    state = host.engine.state
    assert check_sums(state) == check_placements(before, state) == ()
    for uid, made in state.earmarks.items():
        if made.beneficiary.uid == beneficiary:
            continue
        room = made.left(state.accounting, state.pods.values())
        for node in room.nodes if room.amounts else ():
            free = free_bytes(state.accounting, (node,), "memory")
            taken = free_bytes(before.accounting, (node,), "memory") - free
            if taken > 0:
                assert len(room.nodes) == 1, uid
                assert free >= room.amounts["memory"], uid
