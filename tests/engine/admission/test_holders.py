"""The largest holders of what a refused request lacks."""

from nri_numamem.engine.admission.holders import LIMIT, holders_of
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.common import HolderShown
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.holder import HolderKind, HolderName
from nri_numamem.numa import NodeSet
from tests.engine.conftest import GI, MI, PAGE, Host, NewHost


def test_the_holders_in_a_rejection(host: Host) -> None:
    host.create(host.run("a"), "small", 100 * MI)
    host.create(host.run("b"), "large", 700 * MI)
    own = host.run("c")
    host.create(own, "first", 300 * MI)
    (record,) = host.create(own, "second", 100 * GI).records
    assert fields_of(record)["holders"] == [
        {
            "namespace": "ns",
            "pod": "pod-b",
            "container": "large",
            "pod_uid": "b",
            "nodes": host.placed()["b"]["large"],
            "held_bytes": {"memory": 700 * MI},
        },
        {
            "namespace": "ns",
            "pod": "pod-a",
            "container": "small",
            "pod_uid": "a",
            "nodes": host.placed()["a"]["small"],
            "held_bytes": {"memory": 100 * MI},
        },
    ]


def test_only_requested_resources_count(new_host: NewHost) -> None:
    host = new_host(Policy())
    host.create(host.run("a"), "app", 100 * MI, hugepages={PAGE: 2 * PAGE})
    host.create(host.run("b"), "app", 200 * MI, hugepages={PAGE: 0})
    (found,) = holders_of(host.engine.state, "x", ["hugepages-2Mi"])
    assert (found.pod, found.held_bytes) == ("pod-a", {"hugepages-2Mi": 2 * PAGE})


def test_the_list_is_bounded_and_names_may_be_unknown() -> None:
    small, large = (Block(NodeSet([0]), "memory", 5),), (Block(NodeSet([0]), "memory", 9),)
    blocks: dict[HolderName, tuple[Block, ...]] = {"app": small, HolderKind.POD: large}
    state = EngineState(State({}, {f"u{n:02}": blocks for n in range(30)}))
    found = holders_of(state, "x", ["memory"])
    assert len(found) == LIMIT
    assert found[0] == HolderShown(
        namespace="",
        pod="",
        container="",
        pod_uid="u00",
        nodes=NodeSet([0]),
        held_bytes={"memory": 9},
    )
