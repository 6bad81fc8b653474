"""Containers with processes, of Guaranteed pods and of others."""

from pathlib import Path

import pytest

from nri_numamem.cli.live.cgroups import containers_of_other_pods, limited_containers
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages
from tests.cli.live.live_host import GI, LiveHost, four_nodes


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    return LiveHost(tmp_path, four_nodes())


def test_a_pause_container_has_no_limit(host: LiveHost) -> None:
    container = host.run("db", "postgres", 40 * GI, used={0: GI})
    pause = host.write_cgroup("db", "f" * 64, "", 0)
    (pause / "memory.max").write_text("max\n")
    (found,) = limited_containers(host.cgroups, "db", host.directory("db"))
    assert (found.container_id, found.pod_uid) == (container.container_id, "db")
    assert (found.memory_limit_bytes, found.mems) == (40 * GI, NodeSet([0]))
    assert found.pages == Pages(anonymous={0: GI})


def test_containers_of_other_pods_need_no_limit_and_no_nodes(host: LiveHost) -> None:
    for uid, name in (("b1", "1" * 64), ("b1", "2" * 64), ("b2", "3" * 64)):
        directory = host.cgroups / "kubepods/besteffort" / f"pod{uid}" / name
        directory.mkdir(parents=True)
        state = 0 if name[0] == "2" else 1
        (directory / "cgroup.events").write_text(f"populated {state}\n")
    (found,) = containers_of_other_pods(host.cgroups, frozenset(["b1", "db"]))
    assert (found.container_id, found.pod_uid) == ("1" * 64, "b1")
    assert (found.memory_limit_bytes, found.mems, found.effective_mems, found.pages) == (
        0,
        NodeSet(),
        NodeSet(),
        None,
    )
