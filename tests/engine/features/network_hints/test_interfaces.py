"""Network interfaces as hints: what counts, what an annotation switches off, what is recorded."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest, PolicyRequest
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import MemoryPolicies, NodeSet, PolicyMode
from tests.engine.conftest import MI, Answer, Host, four_nodes, handle

ETH1 = NetworkInterface("eth1", NodeSet([2]))
ETH2 = NetworkInterface("eth2", NodeSet([3]))
VETH = NetworkInterface("veth0", NodeSet())
FOUND = "network_hints_found"
DISABLED = "network_hints_disabled"
INCOMPLETE = "network_hints_incomplete"


def new_host(topology_manager_policy: str = "best-effort") -> Host:
    policy = Policy(
        reserved_memory=(Reservation(0, {"memory": 64 * MI}),),
        topology_manager_policy=topology_manager_policy,
        memory_policies=MemoryPolicies(tuple(PolicyMode)),
        network_hints=True,
    )
    return Host(Engine(new_context(four_nodes(), policy)))


def create(
    host: Host,
    *interfaces: NetworkInterface,
    annotations: dict[str, str] | None = None,
    devices: tuple[str, ...] = (),
    obstacle: str = "",
    memory: int = 200 * MI,
    uid: str = "a",
    policy_request: PolicyRequest | None = None,
) -> Answer:
    """Create a container of a new pod."""
    pod = replace(host.run(uid), annotations=annotations or {})
    nodes = tuple(map(NodeSet.parse, devices))
    container = events.Container(f"c-{uid}", pod.sandbox_id, "main", memory, device_nodes=nodes)
    network = NetworkRequest(interfaces, obstacle)
    event = events.CreateContainer(pod, container, policy_request=policy_request, network=network)
    return handle(host.engine, event)


def nodes_of(answer: Answer) -> str | None:
    return None if answer.adjustment is None else answer.adjustment.cpuset_mems


def network_events(answer: Answer) -> list[str]:
    return [r.event for r in answer.records if r.event in (FOUND, DISABLED, INCOMPLETE)]


def test_memory_follows_a_network_interface() -> None:
    answer = create(new_host(), ETH1)
    assert nodes_of(answer) == "2"
    admitted, found = answer.records
    assert fields_of(admitted)["hints"] == {**dict(hints(answer)), "network": {"eth1": "2"}}
    assert found.event == FOUND
    assert fields_of(found)["interfaces"] == {"eth1": "2"}


def hints(answer: Answer) -> dict[str, object]:
    found = fields_of(answer.records[0])["hints"]
    assert isinstance(found, dict)
    return found


def test_without_hardware_nothing_changes_and_nothing_is_recorded() -> None:
    answer = create(new_host(), VETH)
    assert nodes_of(answer) == "0"
    assert network_events(answer) == []
    assert "network" not in hints(answer)


def test_interfaces_without_hardware_are_shown_beside_others() -> None:
    found = create(new_host(), ETH1, VETH).records[-1]
    assert fields_of(found)["interfaces"] == {"eth1": "2", "veth0": ""}


def test_several_interfaces_are_merged_as_devices_are() -> None:
    by_devices = create(new_host(), devices=("2", "3"))
    assert nodes_of(create(new_host(), ETH1, ETH2)) == nodes_of(by_devices) == "2-3"
    assert nodes_of(create(new_host(), ETH1, devices=("3",))) == "2-3"


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_strict_policies_refuse_interfaces_on_two_nodes(policy: str) -> None:
    answer = create(new_host(policy), ETH1, ETH2)
    assert answer.refusal is not None
    assert "network interface eth1 on node 2, network interface eth2 on node 3" in answer.refusal
    assert network_events(answer) == [FOUND]


@pytest.mark.parametrize(
    "name", ["network-hints.numamem.io", "network-hints.numamem.io/container.main"]
)
def test_an_annotation_switches_the_hints_off(name: str) -> None:
    answer = create(new_host(), ETH1, annotations={name: "false"}, obstacle="it is late")
    assert nodes_of(answer) == "0"
    assert network_events(answer) == [DISABLED]


def test_an_annotation_without_effect_is_not_recorded() -> None:
    annotations = {"network-hints.numamem.io": "false"}
    assert network_events(create(new_host(), VETH, annotations=annotations)) == []


def test_an_annotation_for_one_container_precedes_that_of_the_pod() -> None:
    name = "network-hints.numamem.io"
    annotations = {name: "false", f"{name}/container.main": "true"}
    assert nodes_of(create(new_host(), ETH1, annotations=annotations)) == "2"


def test_other_annotations_change_nothing_and_are_recorded() -> None:
    answer = create(new_host(), ETH1, annotations={"network-hints.numamem.io": "no"})
    assert nodes_of(answer) == "2"
    assert network_events(answer) == [FOUND, INCOMPLETE]
    assert fields_of(answer.records[-1])["cause"] == "the annotation 'no' is neither true nor false"


def test_an_obstacle_is_recorded_and_the_rest_counts() -> None:
    answer = create(new_host(), ETH1, obstacle="it is late")
    assert nodes_of(answer) == "2"
    assert network_events(answer) == [FOUND, INCOMPLETE]
    answer = create(new_host(), obstacle="it is late")
    assert nodes_of(answer) == "0"
    assert network_events(answer) == [INCOMPLETE]
    assert fields_of(answer.records[-1])["cause"] == "it is late"


def test_a_memory_policy_prefers_the_nodes_of_an_interface() -> None:
    """The container needs two nodes, of which one has the interface."""
    request = PolicyRequest("preferred")
    host = new_host()
    answer = create(host, ETH2, memory=1500 * MI, policy_request=request)
    assert nodes_of(answer) == "2-3"
    assert answer.adjustment is not None
    assert answer.adjustment.memory_policy is not None
    assert answer.adjustment.memory_policy.nodes == NodeSet([3])


def test_a_full_node_leaves_a_container_misaligned_with_its_interface() -> None:
    host = new_host()
    create(host, ETH1, memory=900 * MI)
    answer = create(host, ETH1, memory=900 * MI, uid="b")
    (record,) = [r for r in answer.records if r.event == "misaligned"]
    assert fields_of(record)["misaligned"] == {"network": {"eth1": "2"}}
    assert fields_of(record)["causes"] == {"network": "not_enough_free"}
