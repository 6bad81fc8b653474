"""placementStrategy: which of several equally good node sets a container gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.policy import Policy
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import Strategy

if TYPE_CHECKING:
    from nri_numamem.engine.events import PodSandbox
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
RESERVED = tuple(Reservation(node, {"memory": 92 * MI}) for node in range(4))  # 900 MiB are free
FILLED = (300, 500, 100, 500)


def filled(
    new_host: NewHost,
    strategy: Strategy,
    scope: str = "container",
    policy: str = "best-effort",
) -> Host:
    """Nodes 0 to 3 with 600, 400, 800 and 400 MiB free."""
    settings = Policy(
        topology_manager_policy=policy,
        topology_manager_scope=scope,
        reserved_memory=RESERVED,
        placement_strategy=strategy,
    )
    host = new_host(settings)
    for node, size in enumerate(FILLED):
        pod = host.run(f"full-{node}", memory=size * MI)
        assert nodes_of(host, pod, size, cpus=f"{4 * node}") == str(node)
    return host


def nodes_of(host: Host, pod: PodSandbox, size: int, name: str = "main", cpus: str = "") -> str:
    """Create a container of some MiB; return its nodes."""
    adjustment = host.create(pod, name, size * MI, cpus=cpus).adjustment
    assert adjustment is not None
    return adjustment.cpuset_mems


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [(Strategy.LOWEST_IDS, "0"), (Strategy.PACK, "1"), (Strategy.SPREAD, "2")],
)
def test_a_single_node(new_host: NewHost, strategy: Strategy, nodes: str, scope: str) -> None:
    host = filled(new_host, strategy, scope)
    assert nodes_of(host, host.run("a", memory=300 * MI), 300) == nodes


def test_containers_are_packed_until_the_node_is_full(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    found = [nodes_of(host, host.run(f"p{n}", memory=200 * MI), 200) for n in range(6)]
    assert found == ["1", "1", "3", "3", "0", "0"]


def test_containers_are_spread(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.SPREAD)
    found = [nodes_of(host, host.run(f"p{n}", memory=200 * MI), 200) for n in range(6)]
    assert found == ["2", "0", "2", "0", "1", "2"]


def test_packing_leaves_a_node_for_a_large_container(new_host: NewHost) -> None:
    """The example in docs/internals/placement.md."""
    answers: dict[Strategy, str | None] = {}
    for strategy in Strategy:
        host = filled(new_host, strategy, policy="single-numa-node")
        for number in range(6):
            nodes_of(host, host.run(f"p{number}", memory=200 * MI), 200)
        adjustment = host.create(host.run("large", memory=800 * MI), memory=800 * MI).adjustment
        answers[strategy] = None if adjustment is None else adjustment.cpuset_mems
    assert answers == {Strategy.LOWEST_IDS: None, Strategy.PACK: "2", Strategy.SPREAD: None}


def test_hints_of_cpus_come_first(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    assert nodes_of(host, host.run("a", memory=300 * MI), 300, cpus="8") == "2"
    assert nodes_of(host, host.run("b", memory=300 * MI), 300, cpus="0,12") == "3"


def test_the_rest_of_the_pod_comes_first(new_host: NewHost) -> None:
    """Only node 2 can hold the second container, so the first one goes elsewhere."""
    host = filled(new_host, Strategy.SPREAD)
    pod = host.run("a", memory=1000 * MI)
    assert nodes_of(host, pod, 300, "one") == "0"
    assert nodes_of(host, pod, 700, "two") == "2"


def test_previous_nodes_come_first(new_host: NewHost) -> None:
    host = filled(new_host, Strategy.PACK)
    pod = host.run("a", memory=200 * MI)
    assert nodes_of(host, pod, 200, cpus="8") == "2"
    host.stop_pod(pod)
    again = host.run("a", memory=200 * MI, sandbox="again")
    assert nodes_of(host, again, 200) == "2"


@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [(Strategy.LOWEST_IDS, "0-1"), (Strategy.PACK, "0-1"), (Strategy.SPREAD, "2-3")],
)
def test_existing_groups(new_host: NewHost, strategy: Strategy, nodes: str) -> None:
    host = new_host(Policy(reserved_memory=RESERVED, placement_strategy=strategy))
    assert nodes_of(host, host.run("large", memory=1100 * MI), 1100) == "0-1"
    assert nodes_of(host, host.run("less", memory=1000 * MI), 1000) == "2-3"
    assert nodes_of(host, host.run("a", memory=100 * MI), 100) == nodes
