"""What the report makes of the facts."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.report import Condition, Kind
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.numa import Machine, NodeSet
from tests.cli.live.live_host import GI, LiveHost, four_nodes
from tests.cli.status.conftest import RESERVED
from tests.laboratory.fake_sysfs import overlay_of, write_overlay


def test_without_a_machine_there_are_only_containers(running_host: LiveHost) -> None:
    facts = replace(collect(running_host.parsed()), context=None)
    report = judge(facts)
    assert report.nodes == ()
    assert [row.condition for row in report.containers].count(Condition.RUNNING) == 3
    assert judge(replace(facts, state=None)).containers == ()


def test_ended_containers_show_no_use(running_host: LiveHost) -> None:
    rows = {row.name: row for row in judge(collect(running_host.parsed())).containers}
    assert rows["backup"].condition is Condition.ENDED
    assert rows["backup"].private_bytes is None
    assert rows["worker"].private_bytes == 58 * GI
    assert rows["worker"].remote_bytes == 0


Change = Callable[[LiveHost], None]


@pytest.fixture(name="host")
def _host(host: LiveHost) -> LiveHost:
    """Without the difference that it has: dpdk's memory is all on its node."""
    host.use("upf-7", container_id(host, "upf-7"), {1: 9 * GI})
    return host


def container_id(host: LiveHost, uid: str) -> str:
    return next(h.container_id for h in host.engine.state.holders.values() if h.key[0] == uid)


def cgroup_file(uid: str, name: str, text: str) -> Change:
    def change(host: LiveHost) -> None:
        (host.directory(uid, container_id(host, uid)) / name).write_text(text)

    return change


def found(host: LiveHost) -> list[tuple[Kind, str]]:
    differences = judge(collect(host.parsed())).differences
    return [(difference.kind, difference.text) for difference in differences]


def test_there_is_none(running_host: LiveHost) -> None:
    assert found(running_host) == []


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (cgroup_file("db-1", "cgroup.events", "populated 0\n"), Kind.NOT_RUNNING, "not reported"),
        (cgroup_file("db-1", "cpuset.mems", "\n"), Kind.CPUSET_MEMS_UNSET, "no cpuset.mems"),
        (cgroup_file("db-1", "cpuset.mems", "2\n"), Kind.CPUSET_MEMS_DIFFERS, "cpuset.mems is 2"),
        (
            cgroup_file("train-3", "cpuset.mems.effective", "2\n"),
            Kind.CPUSET_MEMS_NOT_EFFECTIVE,
            "only 2 has an effect",
        ),
        (
            cgroup_file("db-1", "memory.numa_stat", "anon N0=900000000 N1=100000000\n"),
            Kind.REMOTE_MEMORY,
            "95.36Mi of its 953.67Mi are not on node 0",
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Kind) else None,
)
def test_a_cgroup_differs(running_host: LiveHost, change: Change, kind: Kind, text: str) -> None:
    change(running_host)
    ((found_kind, found_text),) = found(running_host)
    assert found_kind is kind
    assert text in found_text


@pytest.mark.parametrize("remote", [1 << 20, 200 << 20], ids=["few bytes", "a small share"])
def test_a_little_remote_memory_is_none(running_host: LiveHost, remote: int) -> None:
    local = 30 * GI if remote > 2 << 20 else GI
    running_host.use("db-1", container_id(running_host, "db-1"), {0: local, 1: remote})
    assert found(running_host) == []


def test_ended_after_the_plugin(host: LiveHost) -> None:
    cgroup_file("db-1", "cgroup.events", "populated 0\n")(host)
    ((kind, text),) = found(host)
    assert (kind, "ended after the plugin" in text) == (Kind.NOT_RUNNING, True)


def test_cgroups_that_show_no_memory_differ_in_nothing(running_host: LiveHost) -> None:
    directory = running_host.directory("db-1", container_id(running_host, "db-1"))
    (directory / "memory.numa_stat").unlink()
    (directory / "cpuset.mems.effective").unlink()
    assert found(running_host) == []


def test_a_running_container_without_an_assignment(running_host: LiveHost) -> None:
    running_host.write_cgroup("late", running_host.new_id(), "", GI)
    running_host.write_cgroup("kubelets", running_host.new_id(), "1", GI)
    texts = [text for kind, text in found(running_host) if kind is Kind.UNPINNED]
    assert {text.partition(":")[0] for text in texts} == {
        "runs unpinned",
        "has no assignment, and its cpuset.mems is 1",
    }


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("whenUnsatisfiable: RunUnpinned\n", "nothing fitted when it was created (RunUnpinned)"),
        ("{}\n", "it began while the plugin was away, or just now"),
    ],
)
def test_why_a_container_runs_unpinned(tmp_path: Path, settings: str, text: str) -> None:
    host = LiveHost(tmp_path / "other", four_nodes(), settings)
    pod = host.sandbox("big", 300 * GI)
    container, _plan = host.create(pod, "main", 300 * GI)
    host.write_cgroup("big", container.container_id, "", 300 * GI)
    host.save()
    with host.running():
        report = judge(collect(host.parsed()))
    (row,) = report.containers
    (difference,) = report.differences
    assert difference.text.endswith(f": {text}")
    is_known = "RunUnpinned" in text
    assert (row.title, row.name) == (("shop/big-x", "main") if is_known else ("big", ""))
    assert (" since 2026-09-21T14:13:20Z" in difference.text) is is_known


def test_an_event_of_a_later_version(running_host: LiveHost) -> None:
    facts = collect(running_host.parsed())
    assert facts.state is not None
    assert facts.cgroups is not None
    running_host.write_cgroup("late", "f" * 64, "", GI)
    reason = Reason("f" * 64, "s", ("late", "main"), "shop", "late-x", "synchronized")
    state = facts.state.with_reasons(Reasons({}, {reason.container_id: reason}))
    cgroups = collect(running_host.parsed()).cgroups
    (difference,) = judge(replace(facts, state=state, cgroups=cgroups)).differences
    assert difference.text == "runs unpinned: synchronized; nri-numamem explain shows more"


def test_hugepages_used_outside_of_pods(running_host: LiveHost) -> None:
    running_host.use_hugepages(0, 3)
    ((kind, text),) = found(running_host)
    assert kind is Kind.NON_POD_HUGEPAGES
    assert text == (
        "node 0: 3 of 4 1Gi pages are used outside of pods; no process is known for 3 1Gi pages: "
        "look at pods that are not managed, and at shared memory (ipcs -m)"
    )
    running_host.start_process(881, "dpdk-testpmd", 3 * GI, "/user.slice/x.scope")
    running_host.start_process(882, "in-a-pod", 3 * GI, "/kubepods/podx/y")
    ((_, text),) = found(running_host)
    assert text == (
        "node 0: 3 of 4 1Gi pages are used outside of pods: dpdk-testpmd (pid 881, 3Gi of "
        "hugepages, nodes unknown)"
    )


def test_hugepages_reserved_outside_of_pods(running_host: LiveHost) -> None:
    system = running_host.root / "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages"
    system.write_text("3\n")
    texts = [text for _, text in found(running_host)]
    assert texts == ["all nodes: 1 of 16 1Gi pages is reserved outside of pods"]


def test_memory_that_the_kernel_does_not_have(running_host: LiveHost) -> None:
    path = running_host.root / "sys/devices/system/node/node1/meminfo"
    path.write_text(
        f"Node 1 MemTotal: {64 << 20} kB\nNode 1 MemFree: {4 << 20} kB\n"
        f"Node 1 Inactive(file): {1 << 20} kB\n"
    )
    ((kind, text),) = found(running_host)
    assert kind is Kind.NON_POD_MEMORY
    assert text.startswith("node 1: 36Gi are free in the accounting, and 5Gi in the kernel")


def test_low_head_room_with_the_setting(running_host: LiveHost) -> None:
    path = running_host.root / "sys/devices/system/node/node1/meminfo"
    path.write_text(f"Node 1 MemTotal: {64 << 20} kB\nNode 1 MemFree: {40 << 20} kB\n")
    running_host.config.write_text(f"{RESERVED}residency: {{intervalSeconds: 60, headRoom: 20Gi}}")
    # 15 GiB of dpdk's 24 are not resident.
    assert found(running_host) == []
    running_host.config.write_text(f"{RESERVED}residency: {{intervalSeconds: 60, headRoom: 26Gi}}")
    ((kind, text),) = found(running_host)
    assert kind is Kind.HEAD_ROOM_LOW
    assert text.startswith(
        "node 1: 40Gi are available in the kernel, and containers may still allocate 15Gi: "
    )


def test_a_node_that_is_gone(running_host: LiveHost) -> None:

    shutil.rmtree(running_host.root / "sys")
    write_overlay(overlay_of(Machine(four_nodes().nodes[:3])), running_host.root)
    missing = [text for kind, text in found(running_host) if kind is Kind.NODE_MISSING]
    assert missing == ["placed on node 3, which the machine does not have"]


def test_more_than_a_node_has(running_host: LiveHost) -> None:
    running_host.config.write_text("reservedMemory: [{numaNode: 0, limits: {memory: 40Gi}}]\n")
    kinds = dict(found(running_host))
    assert kinds[Kind.OVERCOMMITTED] == "20Gi of its memory exceed what node 0 can hold"


def test_memory_away_from_the_cpus(running_host: LiveHost, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = collect(running_host.parsed())
    state = facts.state
    assert isinstance(state, EngineState)
    holder = state.holders["db-1", "postgres"]
    away = replace(holder, misaligned=OtherProviders(cpu=NodeSet([3])))
    state = state.with_holder(away, state.accounting)
    (difference,) = judge(replace(facts, state=state)).differences
    assert difference.kind is Kind.MISALIGNED
    assert difference.text == "its memory is on no node of its cpu on node 3"
