"""Facts of a host; a part that cannot be read leaves the others."""

import os
from pathlib import Path

import pytest

from nri_numamem.cli import host_arguments
from nri_numamem.cli.live import collect as live
from nri_numamem.config.errors import UsageError
from nri_numamem.host.hugepage_users import HugepageUsers
from nri_numamem.numa import Machine, NodeSet
from nri_numamem.numa.pages import Pages
from nri_numamem.observe.plugin_file import Setting, plugin_file_of
from tests.cli.live.live_host import CHANGED_S, GI, LiveHost, four_nodes


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "postgres", 40 * GI, pages=1, used={0: GI})
    host.save()
    return host


def test_a_running_plugin(host: LiveHost) -> None:
    with host.running():
        facts = live.collect(host.parsed())
    assert facts.holder is not None
    assert facts.holder.pid == 2114
    assert facts.changed_s == CHANGED_S
    assert facts.state is not None
    ((key, holder),) = facts.state.holders.items()
    assert key == ("db", "postgres")
    node = facts.state.accounting.machine_state[0]
    assert node.table("memory").reserved == 40 * GI
    assert facts.cgroups is not None
    cgroup = facts.cgroups[holder.container_id]
    assert (cgroup.pod_uid, cgroup.mems, cgroup.memory_limit_bytes) == (
        "db",
        NodeSet([0]),
        40 * GI,
    )
    assert (cgroup.pages or Pages()).private == {0: GI}
    assert (facts.state_problem, facts.machine_problem, facts.cgroup_problem) == ("", "", "")


def test_sandboxes_have_the_limits_of_their_cgroups(host: LiveHost) -> None:
    (host.directory("db") / "memory.max").write_text(f"{50 * GI}\n")
    (host.directory("db") / "hugetlb.1GB.max").write_text(f"{GI}\n")
    facts = live.collect(host.parsed())
    assert facts.state is not None
    (pod,) = facts.state.pods.values()
    assert (pod.uid, pod.memory_limit_bytes, pod.hugepage_limits) == ("db", 50 * GI, {GI: GI})
    assert pod.cgroup_parent == "/kubepods/poddb"
    assert set(facts.state.holders["db", "postgres"].sandbox_id) <= set(pod.sandbox_id)


def test_pinned_containers_of_burstable_pods(host: LiveHost) -> None:
    (host.cgroups / "kubepods/burstable/podother").mkdir(parents=True)
    host.directory("db").rename(host.cgroups / "kubepods/burstable/poddb")
    sidecar = host.cgroups / "kubepods/burstable/poddb" / host.new_id()
    sidecar.mkdir()
    (sidecar / "cgroup.events").write_text("populated 1\n")
    (sidecar / "memory.max").write_text(f"{GI}\n")
    facts = live.collect(host.parsed())
    assert facts.state is not None
    ((_, holder),) = facts.state.holders.items()
    assert facts.cgroups is not None
    assert set(facts.cgroups) == {holder.container_id}
    assert facts.other_pods == {"Burstable": 1, "BestEffort": 0}
    assert facts.state.accounting.machine_state[0].table("memory").reserved == 40 * GI
    (pod,) = facts.state.pods.values()
    assert pod.cgroup_parent == "/kubepods/burstable/poddb"


def test_the_use_of_pods_is_known_where_their_cgroup_shows_it(host: LiveHost) -> None:
    host.use_hugepages(0, 1)
    (host.directory("db") / "hugetlb.1GB.numa_stat").write_text(f"total={GI} N0={GI}\n")
    facts = live.collect(host.parsed())
    assert facts.pool_use is not None
    assert facts.pool_use.by_pods == {"db": {0: {"hugepages-1Gi": GI}}}
    assert facts.pool_use.pools[0]["hugepages-1Gi"].used == GI


def test_cgroup_v1(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    container = host.run("db", "postgres", 40 * GI)
    host.save()
    (host.cgroups / "cgroup.controllers").unlink()
    source = host.directory("db", container.container_id)
    cpuset = host.cgroups / "cpuset" / source.relative_to(host.cgroups)
    cpuset.mkdir(parents=True)
    (cpuset / "cgroup.procs").write_text("7\n")
    (cpuset / "cpuset.mems").write_text("2\n")
    (cpuset.parent / "cpuset.mems").write_text("0-3\n")
    (cpuset / "cpuset.effective_mems").write_text("2\n")
    memory = host.cgroups / "memory" / source.relative_to(host.cgroups)
    memory.mkdir(parents=True)
    (memory / "memory.limit_in_bytes").write_text(f"{40 * GI}\n")
    facts = live.collect(host.parsed())
    assert facts.cgroups is not None
    cgroup = facts.cgroups[container.container_id]
    assert (cgroup.mems, cgroup.effective_mems) == (NodeSet([2]), NodeSet([2]))
    assert cgroup.pages is None


def test_a_state_file_that_cannot_be_used(host: LiveHost) -> None:
    host.state_file.write_text("[]")
    facts = live.collect(host.parsed())
    assert facts.state is None
    assert facts.state_problem == f"{host.state_file}: snapshot: not an object"
    host.state_file.unlink()
    assert live.collect(host.parsed()).state_problem == ""
    host.state_file.mkdir()
    assert "Is a directory" in live.collect(host.parsed()).state_problem


def test_a_machine_that_cannot_be_read(host: LiveHost) -> None:
    (host.root / "sys/devices/system/node/node1/meminfo").unlink()
    facts = live.collect(host.parsed())
    assert "node1/meminfo: no such file" in facts.machine_problem
    assert facts.context is None
    assert facts.state is not None
    assert facts.state.holders


def test_a_reservation_that_the_machine_lacks(host: LiveHost) -> None:
    host.config.write_text("reservedMemory: [{numaNode: 9, limits: {memory: 1Gi}}]\n")
    assert f"{host.config}:1: " in live.collect(host.parsed()).machine_problem


def test_pools_that_cannot_be_read(host: LiveHost) -> None:
    pool = "sys/devices/system/node/node0/hugepages/hugepages-1048576kB/free_hugepages"
    (host.root / pool).unlink()
    facts = live.collect(host.parsed())
    assert facts.pool_use is None
    assert "free_hugepages" in facts.machine_problem


def test_cgroups_that_cannot_be_read(host: LiveHost) -> None:
    (host.directory("db", "abc" + "0" * 60 + "2") / "cpuset.mems").write_text("x\n")
    facts = live.collect(host.parsed())
    assert facts.cgroups is None
    assert "cpuset.mems: 'x' is not a list of NUMA nodes" in facts.cgroup_problem


def test_a_pod_cgroup_that_cannot_be_read(host: LiveHost) -> None:
    (host.directory("db") / "memory.max").write_text("x\n")
    facts = live.collect(host.parsed())
    assert facts.state is not None
    assert facts.state.pods == {}
    assert facts.state.accounting.machine_state[0].number_of_assignments == 2


def test_a_missing_permission_is_an_error(host: LiveHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(live, "read_state", refuse)
    with pytest.raises(UsageError, match="Permission denied; run as root"):
        live.collect(host.parsed())
    monkeypatch.setattr(live, "find_holder", refuse)
    with pytest.raises(UsageError, match=r"\.lock: Permission denied; run as root"):
        live.collect(host.parsed())


def test_the_settings_of_a_launched_plugin(
    host: LiveHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    monkeypatch.setattr(host_arguments, "LAUNCHED_CONFIGS", folder)
    monkeypatch.setattr(host_arguments, "DEFAULT_CONFIG", tmp_path / "none.yaml")
    args = host.parsed()
    args.config = None
    assert live.collect(args).settings_origin == "no file: defaults"
    (folder / "10-other.conf").write_text("x")
    (folder / "10-nri-numamem.conf").write_text("topologyManagerScope: pod\n")
    facts = live.collect(args)
    assert facts.settings_origin == str(folder / "10-nri-numamem.conf")
    assert facts.settings.topology_manager_scope == "pod"


def test_the_settings_of_the_running_plugin(
    host: LiveHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_arguments, "DEFAULT_CONFIG", tmp_path / "none.yaml")
    host.config.write_text("topologyManagerScope: pod\nreservedMemory: []\nmetricsAddress: ''\n")
    host.describe()
    args = host.parsed()
    args.config = None
    facts = live.collect(args)
    assert facts.settings.topology_manager_scope == "pod"
    assert facts.settings_origin == str(host.config)
    assert facts.plugin is not None
    host.config.write_text("topologyManagerScope: container\n")
    named = live.collect(host.parsed())
    assert named.settings.topology_manager_scope == "container"
    assert named.plugin == facts.plugin
    flags = {"logLevel": Setting("info", "--log-level"), "kubeReserved": Setting(None, "--x")}
    host.describe(settings=flags)
    assert live.collect(args).settings_origin == "--x"
    others = {
        "failOnTimeout": Setting(value=True, origin="/a.yaml:1"),
        "metricsTextfile": Setting("/a.prom", "/a.yaml:2"),
        "stateFile": Setting("/a", "/a.yaml:3"),
    }
    host.describe(settings=others)  # a file without a setting of placement
    assert live.collect(args).settings_origin == "defaults"
    host.describe(settings={})
    assert live.collect(args).settings_origin == "defaults"


def test_a_configuration_that_cannot_be_used_any_more(
    host: LiveHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running plugin has its settings still, unless a command names the file."""
    monkeypatch.setattr(host_arguments, "DEFAULT_CONFIG", host.config)
    host.describe()
    host.config.write_text("topologyManagerScop: pod\n")
    args = host.parsed()
    with pytest.raises(UsageError, match=r"config.yaml:1: topologyManagerScop: unknown key"):
        live.collect(args)
    args.config = None
    assert live.collect(args).settings_origin == "defaults"
    plugin_file_of(host.state_file).unlink()
    with pytest.raises(UsageError, match=r"config.yaml:1: topologyManagerScop: unknown key"):
        live.collect(args)


def test_a_description_that_cannot_be_used(host: LiveHost) -> None:
    host.describe(settings={"topologyManagerScope": Setting("node", "--flag")})
    args = host.parsed()
    args.config = None
    facts = live.collect(args)
    assert facts.plugin_problem.startswith("topologyManagerScope: unknown value 'node'")
    assert facts.plugin is not None
    plugin_file_of(host.state_file).write_text("{}")
    facts = live.collect(args)
    assert "plugin.json: not a document of the plugin" in facts.plugin_problem
    assert facts.plugin is None


def test_a_machine_without_hugepages(tmp_path: Path) -> None:
    nodes = tuple(type(node)(node.node_id, node.memory_bytes) for node in four_nodes().nodes)
    host = LiveHost(tmp_path, Machine(nodes))
    facts = live.collect(host.parsed())
    assert facts.hugepage_users == HugepageUsers()
    assert (facts.cgroups, facts.cgroup_problem) == (None, "")


def test_a_host_whose_cgroups_are_not_mounted(host: LiveHost) -> None:
    (host.cgroups / "kubepods").rename(host.cgroups / "other")
    facts = live.collect(host.parsed())
    assert facts.cgroups is None
    assert "has no cgroup of pods (kubepods)" in facts.cgroup_problem
    assert facts.state is not None
    assert facts.state.holders


def test_the_state_file_with_the_former_name(host: LiveHost) -> None:
    folder = host.state_file.parent
    host.state_file.rename(folder / "memory_manager_state")
    host.state_file = folder / "nri_numamem_state"
    facts = live.collect(host.parsed())
    assert facts.state is not None
    assert set(facts.state.holders) == {("db", "postgres")}
    assert facts.changed_s == CHANGED_S
