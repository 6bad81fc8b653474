"""Alarms for memory on remote nodes, and the likely causes."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.events import CpusetRead, CpusetsRead
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.cpusets.check import nodes_of_container
from nri_numamem.engine.features.residency.remote_memory import (
    Round,
    judge_remote,
    likely_causes,
)
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages
from tests.engine.conftest import MI, Host

REMOTE = Pages(anonymous={0: 80 * MI, 1: 20 * MI})
SOME = Pages(anonymous={0: 90 * MI, 1: 10 * MI})
KERNEL = "pages that the kernel has pinned do not move, nor do pages for which there was no room"


@pytest.fixture
def running(host: Host) -> Host:
    """Return a host with the container "c" on node 0."""
    host.create(host.run("a"), container_id="c")
    return host


def rounds(host: Host, *pages: Pages, percent: int = 10) -> list[str]:
    """Return what each round raises or clears: "+", "-" or ""."""
    found: list[str] = []
    known: dict[str, int] = {}
    for each in pages:
        verdict = judge_remote(host.engine.state, {"c": each}, known, percent)
        known = dict(verdict.rounds)
        found.append("+" * len(verdict.raised) + "-" * len(verdict.cleared))
    return found


def test_an_alarm_needs_two_rounds_and_is_raised_once(running: Host) -> None:
    assert rounds(running, REMOTE, REMOTE, REMOTE, REMOTE) == ["", "+", "", ""]
    assert rounds(running, REMOTE, Pages(), REMOTE, REMOTE) == ["", "", "", "+"]


def test_it_is_cleared_at_half_the_share(running: Host) -> None:
    most = Pages(anonymous={0: 300 * MI, 1: 20 * MI})
    clear = Pages(anonymous={0: 400 * MI, 1: 20 * MI})
    assert rounds(running, REMOTE, REMOTE, most, clear, clear) == ["", "+", "", "-", ""]


def test_little_memory_is_no_alarm(running: Host) -> None:
    assert rounds(running, *[Pages(anonymous={0: MI, 1: 15 * MI})] * 3) == ["", "", ""]


def test_page_cache_is_no_alarm_and_other_kinds_are(running: Host) -> None:
    own = Pages(anonymous={0: 100 * MI})
    assert rounds(running, *[replace(own, cache={1: 900 * MI})] * 2) == ["", ""]
    assert rounds(running, *[replace(own, shared={1: 50 * MI})] * 2) == ["", "+"]
    assert rounds(running, *[replace(own, hugetlb={1: 50 * MI})] * 2) == ["", "+"]


def test_the_share_is_a_setting(running: Host) -> None:
    assert rounds(running, REMOTE, REMOTE, percent=20) == ["", ""]


def test_a_container_without_cpuset_mems_is_left_out(running: Host) -> None:
    running.handle(CpusetsRead((CpusetRead("c", NodeSet()),)))
    assert rounds(running, REMOTE, REMOTE) == ["", ""]


def test_an_ended_or_unknown_container_has_no_nodes(running: Host) -> None:
    state = running.engine.state
    assert nodes_of_container(state, "c") == NodeSet([0])
    assert nodes_of_container(state, "other") == NodeSet()
    running.stop(running.newest())
    assert nodes_of_container(running.engine.state, "c") == NodeSet()
    assert rounds(running, REMOTE, REMOTE) == ["", ""]


def test_the_number_of_alarms() -> None:
    assert Round(remote={"a": 1, "b": 2, "c": 2}).remote_containers == 2


def causes(host: Host, pages: Pages = REMOTE, mems: str | None = "0", v1: bool = False) -> str:
    given = None if mems is None else NodeSet.parse(mems)
    return "; ".join(likely_causes(host.engine.state, "c", pages, given, is_v1=v1))


def test_likely_causes(running: Host) -> None:
    assert causes(running) == causes(running, mems=None) == KERNEL
    assert causes(running, mems="0-1").startswith("its cpuset.mems is 0-1; ")
    assert causes(running, mems="").startswith("its cpuset.mems is unset; ")
    assert causes(running, v1=True).startswith("cgroup v1 moves no pages unless ")
    tmpfs = "files of tmpfs that no process maps do not move"
    assert causes(running, Pages(shared={1: MI})) == f"{tmpfs}; {KERNEL}"
    assert causes(running, Pages(shared={0: MI, 1: 0})) == KERNEL


def test_causes_that_the_state_knows(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, container_id="c", devices=["0"])
    host.synchronize()
    assert causes(host).startswith("a device may have pinned pages, which never move; ")


def test_a_container_that_was_pinned_while_it_ran(host: Host) -> None:
    reason = Reason("c", "sandbox-a", ("a", "main"), "ns", "pod-a", "pinned_while_running")
    host.create(host.run("a"), container_id="c")
    state = replace(host.engine.state, reasons=Reasons(pinned={"c": reason}))
    found = list(likely_causes(state, "c", REMOTE, NodeSet([0]), is_v1=False))
    assert found == ["it was pinned while it ran", KERNEL]
