import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.main import main
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.nodes import clusters_of, cpus_text
from nri_numamem.cli.status.report import Cpus, Node
from nri_numamem.engine.core.events import Container, CreateContainer
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.cli.live.live_host import GI, LiveHost, four_nodes


def machine(distances: list[list[int]]) -> Machine:
    return Machine(
        tuple(
            NumaNode(n, 1 << 30, distances=dict(enumerate(row))) for n, row in enumerate(distances)
        )
    )


def rows(count: int, near: int) -> list[list[int]]:
    return [
        [10 if a == b else 12 if a // near == b // near else 20 for b in range(count)]
        for a in range(count)
    ]


@pytest.mark.parametrize(
    ("distances", "expected"),
    [
        (rows(4, 2), ["0-1", "2-3"]),
        (rows(6, 3), ["0-2", "3-5"]),
        (rows(3, 1), ["0", "1", "2"]),
        (rows(3, 3), ["0", "1", "2"]),
        (rows(34, 2), [str(n) for n in range(34)]),
    ],
    ids=["pairs", "triples", "equal", "one", "too many"],
)
def test_nodes_at_the_shortest_distance(distances: list[list[int]], expected: list[str]) -> None:
    described = machine(distances)
    assert [str(nodes) for nodes in clusters_of(described, described.node_set)] == expected


def test_only_the_wanted_nodes() -> None:
    assert clusters_of(machine(rows(4, 2)), NodeSet([0, 1, 3])) == [NodeSet([0, 1]), NodeSet([3])]


def test_without_distances_each_node_is_alone() -> None:
    plain = Machine(tuple(NumaNode(n, 1 << 30) for n in range(3)))
    assert len(clusters_of(plain, plain.node_set)) == 3


def host_with(root: Path, config: str) -> LiveHost:
    """Return a host with a request for 1.5 CPUs on node 0, which has one."""
    host = LiveHost(root, four_nodes(), config)
    sandbox = host.sandbox("db-1")
    container = Container("c" * 64, sandbox.sandbox_id, "postgres", GI, cpu_shares=1536)
    host.engine.apply(CreateContainer(sandbox, container))
    host.write_cgroup("db-1", container.container_id, "0", GI)
    host.save()
    host.describe()
    return host


def test_requests_are_shown_where_they_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = host_with(tmp_path, "placementStrategy: balanced-with-cpus\n")
    with host.running():
        assert main(["status", *host.arguments()]) == 0
        lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert main(["status", "--output", "json", *host.arguments()]) == 0
    first = next(number for number, line in enumerate(lines) if line.startswith("  CPUs"))
    assert lines[first : first + 4] == [
        "  CPUs      1.5 of 1 requested on node 0",
        "            0 of 1 requested on node 1",
        "            0 of 1 requested on node 2",
        "            0 of 1 requested on node 3",
    ]
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert nodes[0]["cpus"] == {"requestedMillicores": 1500, "usableMillicores": 1000}


def test_requests_are_not_shown_where_they_do_not_count(tmp_path: Path) -> None:
    host = host_with(tmp_path, "placementStrategy: pack\n")
    with host.running():
        assert [node.cpus for node in judge(collect(host.parsed())).nodes] == [None] * 4


def test_the_text_of_several_nodes_has_the_sums() -> None:
    node = Node(0, NodeSet([0]), is_assigned=False, node_class="dram", use="use", amounts={})
    assert cpus_text([node]) == ""
    nodes = [replace(node, node_id=n, cpus=Cpus(1750 * n, 8000)) for n in (1, 2)]
    assert cpus_text(nodes) == "5.25 of 16 requested on nodes 1-2"
