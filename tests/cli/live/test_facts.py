from pathlib import Path

import pytest

from nri_numamem.cli.live.facts import (
    Facts,
    containers_of_other_pods,
    limited_containers,
    pod_names,
)
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.numa.pages import Pages
from tests.cli.live.live_host import GI, LiveHost, four_nodes


def test_facts_begin_with_nothing_known() -> None:
    facts = Facts(0.0, Settings(), "no file: defaults", "")
    assert facts.holder is None
    assert facts.state is None
    assert facts.cgroups is None
    assert (facts.state_problem, facts.machine_problem, facts.cgroup_problem) == ("", "", "")


def test_names_of_pinned_and_unpinned_containers() -> None:
    context = Context.of(Machine((NumaNode(0, 1 << 30),)), Policy())
    state = EngineState(context.empty_accounting())
    assert pod_names(state) == {}
    one = Reason("i", "s", ("u", "c"), "ns", "one", "admitted")
    two = Reason("j", "t", ("v", "c"), "ns", "two", "unpinned_no_capacity")
    assert pod_names(state.with_reasons(Reasons({"i": one}, {"j": two}))) == {
        "u": ("ns", "one"),
        "v": ("ns", "two"),
    }


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
