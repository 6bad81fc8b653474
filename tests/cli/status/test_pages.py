"""Which containers `status --pages` shows, and the sums of their pages."""

import shutil
from pathlib import Path

import pytest

from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.pages import PageReport, page_report
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import GI, LiveHost
from tests.cli.status.pages_host import BURSTABLE, add_burstable, add_pages


def report_of(host: LiveHost, query: str = "") -> PageReport:
    args = host.parsed()
    logs = host.root / "var/log/pods"
    return page_report(judge(collect(args)), roots_of(args), query, logs)


def test_the_containers_of_the_accounting(host: LiveHost) -> None:
    add_pages(host)
    add_burstable(host)
    report = report_of(host)
    rows = {row.name: row for row in report.rows}
    assert list(rows) == ["postgres", "worker", "dpdk"]
    dpdk = rows["dpdk"]
    assert (dpdk.title, dpdk.nodes, dpdk.is_assigned) == ("shop/upf-7-x", NodeSet([1]), True)
    assert dpdk.pages.cache == {0: 2 * GI, 1: GI}
    assert (dpdk.remote_bytes, dpdk.is_notable) == (GI, True)
    assert (rows["postgres"].remote_bytes, rows["postgres"].is_notable) == (0, False)


def test_the_sums_of_the_nodes(host: LiveHost) -> None:
    add_pages(host)
    nodes = report_of(host).nodes
    assert (nodes[0].own, nodes[0].remote, nodes[0].cache) == (31 * GI, GI, 2 * GI)
    assert (nodes[1].own, nodes[1].remote) == (8 * GI, 0)
    # postgres lacks 10 GiB of its 40, and db-2 keeps 8 GiB for its next container.
    assert nodes[0].unfaulted == 18 * GI
    # dpdk may allocate 24 GiB, and has 7 GiB besides hugepages, on whatever node.
    assert nodes[1].unfaulted == 17 * GI
    assert nodes[0].available == 64 * GI


def test_nodes_with_too_little_available_memory(host: LiveHost) -> None:
    add_pages(host)
    assert report_of(host).short == {}
    text = "Node 1 MemTotal: 67108864 kB\nNode 1 MemFree: 7340032 kB\n"
    (host.root / "sys/devices/system/node/node1/meminfo").write_text(text)
    assert report_of(host).short == {NodeSet([1]): 10 * GI}


@pytest.mark.parametrize("query", ["redis-0", "shop/redis-0", BURSTABLE])
@pytest.mark.parametrize("limit", ["max", str(4 * GI)])
def test_a_pod_that_is_not_managed(host: LiveHost, query: str, limit: str) -> None:
    add_burstable(host, limit=limit)
    (row,) = report_of(host, query).rows
    assert (row.title, row.name, row.is_assigned) == ("shop/redis-0", "", False)
    assert (row.nodes, row.cgroup.effective_mems) == (NodeSet(), NodeSet([0, 1, 2, 3]))
    assert (row.remote_bytes, row.is_notable) == (None, False)
    assert row.cgroup.memory_limit_bytes == (0 if limit == "max" else 4 * GI)


def test_a_pod_that_is_not_managed_but_pinned(host: LiveHost) -> None:
    add_burstable(host, "3")
    (row,) = report_of(host, "redis-0").rows
    assert (row.nodes, row.remote_bytes, row.is_notable) == (NodeSet([3]), GI, True)


def test_a_managed_pod_by_its_name(host: LiveHost) -> None:
    assert [row.name for row in report_of(host, "upf-7-x").rows] == ["dpdk"]
    assert report_of(host, "upf").rows == ()


def test_an_ended_container_of_another_pod(host: LiveHost) -> None:
    directory = add_burstable(host)
    (directory / "cgroup.events").write_text("populated 0\n")
    assert report_of(host, "redis-0").rows == ()


def test_logs_that_cannot_be_read(host: LiveHost) -> None:
    (host.root / "var").write_text("")
    report = report_of(host, "upf-7-x")
    assert "var/log/pods: Not a directory" in report.problems[-1]


def test_without_state_or_cgroups(host: LiveHost) -> None:
    host.state_file.unlink()
    report = report_of(host, "upf-7")
    (row,) = report.rows
    assert (row.name, row.is_assigned, row.nodes) == ("", False, NodeSet([1]))
    assert report.nodes[1].unfaulted == 0
    shutil.rmtree(host.cgroups / "kubepods")
    assert report_of(host).rows == ()


def test_pages_that_are_unknown(host: LiveHost) -> None:
    container = host.engine.state.holders["upf-7", "dpdk"].container_id
    Path(host.directory("upf-7", container) / "memory.numa_stat").unlink()
    (row,) = report_of(host, "upf-7-x").rows
    assert (row.remote_bytes, row.pages.own) == (None, {})
    # Nothing is known of it, so nothing is compared.
    assert report_of(host).nodes[1].unfaulted == 0
