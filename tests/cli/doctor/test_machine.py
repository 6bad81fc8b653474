"""cgroups, NUMA nodes and the configuration for them: one fault each; hugepages, policies."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nri_numamem.cli.doctor import examine
from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.machine import check_memory_policies
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.main import main
from nri_numamem.config.settings import Settings
from nri_numamem.host.memory_policies import FeaturesError
from nri_numamem.numa import MemoryPolicies, PolicyMode
from tests.cli.doctor.host_files import CONFIG, Change, HostFiles, expect_fault
from tests.cli.live.live_host import GI, LiveHost, four_nodes
from tests.cli.screen_files import check_screen


def reserve_too_much(files: HostFiles) -> None:
    files.write(CONFIG, "reservedMemory: [{numaNode: 0, limits: {memory: 9Gi}}]\n")


def set_a_key_without_effect(files: HostFiles) -> None:
    files.write(CONFIG, "topologyManagerPolicyOptions: {max-allowable-numa-nodes: 9}\n")


def mount_cgroup_v1(files: HostFiles) -> None:
    files.path("sys/fs/cgroup/cgroup.controllers").unlink()


def remove_cpuset(files: HostFiles) -> None:
    files.write("sys/fs/cgroup/cgroup.controllers", "memory hugetlb\n")


def remove_hugetlb(files: HostFiles) -> None:
    files.write("sys/fs/cgroup/cgroup.controllers", "cpuset memory\n")


def hide_the_nodes(files: HostFiles) -> None:
    for node in (0, 1):
        directory = files.path(f"sys/devices/system/node/node{node}")
        (directory / "meminfo").unlink()
        directory.rmdir()


def leave_one_node(files: HostFiles) -> None:
    hide_the_nodes(files)
    files.write("proc/self/status", "Mems_allowed_list:\t0\n")


def damage_sysfs(files: HostFiles) -> None:
    files.write("sys/devices/system/node/node1/meminfo", "nonsense")


WEB = "{name: web, nodes: 1, namespaces: [web], exclusive: all}"


def set_a_partition_that_the_machine_lacks(files: HostFiles) -> None:
    files.write(CONFIG, f"partitions: [{WEB}, {{name: far, nodes: 2, namespaces: [far]}}]\n")


def set_partitions_that_leave_no_node(files: HostFiles) -> None:
    files.write(CONFIG, f"partitions:\n- {WEB.replace('1', '0-1')}\n")


def test_a_usable_partition_is_no_finding(good_host: HostFiles) -> None:
    good_host.write(CONFIG, f"partitions: [{WEB}]\n")
    found = good_host.findings()
    assert "partitions" not in found
    assert found["configuration"].verdict is Verdict.OK


def test_each_unusable_partition_is_a_finding(good_host: HostFiles) -> None:
    set_a_partition_that_the_machine_lacks(good_host)
    found = [each for each in examine(Host(good_host.root)) if each.check == "partitions"]
    text = "partition far is unusable: NUMA node 2 cannot be used on this machine"
    remedy = "its pods are refused, or run unpinned (whenUnsatisfiable); correct partitions"
    assert found == [Finding("partitions", Verdict.FAIL, f"/{CONFIG}: {text}", remedy)]
    damage_sysfs(good_host)
    assert "partitions" not in good_host.findings()


def test_a_configuration_that_names_the_kubelets_file_of_the_host(good_host: HostFiles) -> None:
    good_host.write("etc/kubernetes/kubelet.conf", "kind: KubeletConfiguration\n")
    good_host.write(CONFIG, "kubeletConfigFile: /etc/kubernetes/kubelet.conf\n")
    found = {finding.check: finding for finding in examine(Host(good_host.root))}
    assert found["configuration"].verdict is Verdict.OK
    assert found["kubelet_memory_manager"].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (reserve_too_much, "configuration", Verdict.FAIL, ".conf:1: reservedMemory[0].limits"),
        (set_a_key_without_effect, "configuration", Verdict.WARN, "has no effect"),
        (set_a_partition_that_the_machine_lacks, "partitions", Verdict.FAIL, "far is unusable: "),
        (
            set_partitions_that_leave_no_node,
            "configuration",
            Verdict.FAIL,
            ".conf:1: partitions: the exclusive ones have all NUMA nodes of this machine (0-1)",
        ),
        (mount_cgroup_v1, "cgroups", Verdict.WARN, "no cgroup v2"),
        (remove_cpuset, "cgroups", Verdict.FAIL, "cgroup.controllers lacks cpuset"),
        (remove_hugetlb, "cgroups", Verdict.WARN, "cgroup.controllers lacks hugetlb"),
        (hide_the_nodes, "numa", Verdict.FAIL, "the kernel allows memory of nodes 0-1"),
        (leave_one_node, "numa", Verdict.WARN, "one NUMA node with 16Gi"),
        (damage_sysfs, "numa", Verdict.FAIL, "node1/meminfo: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)


def with_a_node_without_cpus(files: HostFiles, kernel: str, demotion: str) -> dict[str, Finding]:
    files.write("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 8388608 kB\n")
    for node, cpus in enumerate(("0", "1", "")):
        files.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")
    files.write("proc/sys/kernel/osrelease", f"{kernel}\n")
    files.write("sys/kernel/mm/numa/demotion_enabled", f"{demotion}\n")
    return files.findings()


def test_a_node_that_is_left_out_is_named(good_host: HostFiles) -> None:
    found = with_a_node_without_cpus(good_host, "6.12.5-cloud", "false")
    assert found["excluded_nodes"].verdict is Verdict.OK
    text = "node 2: no container is placed there, because memoryNodes.withoutCpus is exclude (8Gi)"
    assert found["excluded_nodes"].text == text
    assert "demotion" not in found
    good_host.write(CONFIG, "memoryNodes: {withoutCpus: use}\n")
    assert "excluded_nodes" not in good_host.findings()
    good_host.write(CONFIG, 'memoryNodes: {override: {"0-2": cpuless}}\n')
    assert "excluded_nodes" not in good_host.findings()


@pytest.mark.parametrize(
    ("kernel", "demotion", "is_found"),
    [
        ("6.12.5-cloud", "true", True),
        ("6.12.5-cloud", "1", True),
        ("unknown", "true", True),
        ("7.0.0-rc1", "true", False),
        ("7.2.1", "false", False),
    ],
)
def test_a_kernel_that_moves_pages_out_of_cpuset_mems(
    good_host: HostFiles, kernel: str, demotion: str, is_found: bool
) -> None:
    finding = with_a_node_without_cpus(good_host, kernel, demotion).get("demotion")
    assert (finding is not None) is is_found
    if finding is not None:
        assert finding.verdict is Verdict.WARN
        assert f"the kernel {kernel} may move pages" in finding.text
        assert "echo false > /sys/kernel/mm/numa/demotion_enabled" in finding.remedy


SCREENS = Path(__file__).parent / "screens"
STATE = "/lib/state"
SETTINGS = "/config.yaml"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[LiveHost]:
    """Four 1Gi pages on each node, those of node 1 assigned to a pod; a plugin runs."""
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "main", 30 * GI)
    host.run("upf", "main", 40 * GI, pages=4)
    host.save()
    with host.running():
        yield host


def hugepage_findings(host: LiveHost) -> list[Finding]:
    found = examine(Host(host.root), Path(SETTINGS), STATE)
    return [finding for finding in found if finding.check == "hugepages"]


def test_what_uses_the_pages_is_named(host: LiveHost) -> None:
    host.use_hugepages(0, 2)
    host.start_process(881, "dpdk-testpmd", 2 * GI, "/user.slice", {0: 2})
    assert hugepage_findings(host) == [
        Finding(
            "hugepages",
            Verdict.WARN,
            "node 0: 2 of 4 1Gi pages are used outside of pods: dpdk-testpmd (pid 881, 2 1Gi "
            "pages)",
            "pods cannot get them: end the programs that use them, or add 2Gi of "
            "hugepages-1Gi on node 0 to reservedMemory",
        )
    ]


def test_pages_that_are_reserved_for_it_are_no_finding(host: LiveHost) -> None:
    host.use_hugepages(0, 2)
    host.config.write_text("reservedMemory: [{numaNode: 0, limits: {hugepages-1Gi: 2Gi}}]\n")
    found = {finding.check: finding for finding in examine(Host(host.root), Path(SETTINGS), STATE)}
    assert found["configuration"].verdict is Verdict.OK
    finding = found["hugepages"]
    assert (finding.verdict, finding.text) == (
        Verdict.OK,
        "no hugepages are used outside of pods",
    )


def test_pages_that_are_only_reserved_by_a_process(host: LiveHost) -> None:
    (host.root / "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages").write_text("5\n")
    (finding,) = hugepage_findings(host)
    assert finding.text == "all nodes: 1 of 16 1Gi pages is reserved outside of pods"
    assert finding.remedy.startswith("end the programs that reserve them, or ")


def test_pages_of_pods_are_no_finding(host: LiveHost) -> None:
    host.use_hugepages(1, 4)
    host.start_process(9, "upf", 4 * GI, "/kubepods/podupf/c", {1: 4})
    assert [finding.verdict for finding in hugepage_findings(host)] == [Verdict.OK]


def test_without_a_plugin_nothing_is_compared(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.use_hugepages(0, 2)
    assert hugepage_findings(host) == []
    host.save()
    assert hugepage_findings(host) == []
    with host.running():
        assert len(hugepage_findings(host)) == 1
        host.state_file.write_text("damaged")
        assert hugepage_findings(host) == []
        host.config.write_text("no-such-key: 1\n")
        assert hugepage_findings(host) == []


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen(
    host: LiveHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    host.use_hugepages(0, 2)
    host.use_hugepages(2, 1)
    host.start_process(881, "dpdk-testpmd", 2 * GI, "/user.slice", {0: 2})
    words = [
        "doctor",
        "--root",
        str(host.root),
        "--config",
        SETTINGS,
        "--state-file",
        STATE,
    ]
    assert main([*words, "--output", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert sum(finding["check"] == "hugepages" for finding in document["findings"]) == 2
    assert main(words) == 1
    shown = capsys.readouterr().out
    others = shown.index("  ?     cannot tell whether /var/run/nri/nri.sock")
    check_screen(shown[shown.index("  warn  node 0:") : others], SCREENS / f"hugepages-{width}.txt")


BIND = PolicyMode.BIND
CHECK = "memory_policies"
REMEDY = "use runc 1.4 or crun 1.24, or newer"


def policy_findings(
    policies: MemoryPolicies,
    programs: Mapping[str, frozenset[str] | FeaturesError] | None = None,
    root: Path = Path("/"),
) -> list[Finding]:
    """Return the findings on a host with these OCI runtimes and their modes."""
    found = programs or {}

    def read(program: Path) -> frozenset[str]:
        modes = found[program.name]
        if isinstance(modes, FeaturesError):
            raise modes
        return modes

    def find(name: str) -> Path | None:
        return Path("/bin", name) if name in found else None

    settings = Settings(memory_policies=policies)
    return list(check_memory_policies(Host(root), settings, find, read))


def test_nothing_is_checked_while_policies_are_off() -> None:
    assert policy_findings(MemoryPolicies(), {"runc": frozenset()}) == []
    assert list(check_memory_policies(Host(), None)) == []


@pytest.mark.parametrize(
    ("modes", "verdict", "text", "remedy"),
    [
        (frozenset({"MPOL_BIND"}), Verdict.OK, "/bin/runc sets memory policies", ""),
        (frozenset(), Verdict.WARN, "/bin/runc sets no memory policies", REMEDY),
        (FeaturesError("it fails"), Verdict.WARN, "it fails", REMEDY),
    ],
)
def test_an_oci_runtime(
    modes: frozenset[str] | FeaturesError, verdict: Verdict, text: str, remedy: str
) -> None:
    found = policy_findings(MemoryPolicies((BIND,)), {"runc": modes})
    assert found == [Finding(CHECK, verdict, text, remedy)]


def test_without_an_oci_runtime() -> None:
    (found,) = policy_findings(MemoryPolicies((BIND,)))
    assert found.verdict is Verdict.WARN
    assert found.text == "the plugin finds neither runc nor crun, so it sets no policies"
    assert "memoryPolicy.runtimes" in found.remedy


@pytest.mark.parametrize(("runtimes", "shown"), [((), "none"), (("a", "b"), "a, b")])
def test_listed_handlers_are_not_checked(runtimes: tuple[str, ...], shown: str) -> None:
    policies = MemoryPolicies((BIND,), runtimes=runtimes)
    text = f"memoryPolicy.runtimes lists the handlers {shown}, which are not checked"
    assert policy_findings(policies) == [Finding(CHECK, Verdict.OK, text)]


def test_another_root_is_not_executed(tmp_path: Path) -> None:
    (found,) = policy_findings(MemoryPolicies((BIND,)), {"runc": frozenset()}, tmp_path)
    assert found.verdict is Verdict.UNKNOWN


def test_modes_that_the_kernel_lacks(tmp_path: Path) -> None:
    weighted = PolicyMode.WEIGHTED_INTERLEAVE
    for policies in (MemoryPolicies((weighted,)), MemoryPolicies(defaults={"a": weighted})):
        found, _ = policy_findings(policies, root=tmp_path)
        assert found.verdict is Verdict.WARN
        assert found.text == "the kernel lacks the modes weighted-interleave of memoryPolicy"
