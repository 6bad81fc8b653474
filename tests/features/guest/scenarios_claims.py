"""Scenarios of resource claims: the scheduler chose the NUMA nodes, and the plugin keeps to them.

The guest's program is kubelet and agent: it prepares claims, and passes their CDI devices to the
runtime. A claim's hook lets no container start that has other NUMA nodes.
"""

import mmap
import subprocess

from tests.features.guest import claims, memory, nodes
from tests.features.guest.claims import Claim
from tests.features.guest.feature import Phase
from tests.features.guest.memory import MIB
from tests.machines.guest import cgroups, systemd
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.processes import unprotected
from tests.machines.guest.waiting import TIMEOUT_S, wait_until

_SIZE = 256 * MIB
_DB = Claim("db", {"mem": f"memory@1={_SIZE}"})
_SHARED = Claim("shared", {"mem": f"memory@2={_SIZE}"})
_PAGES_BYTES = 8 * MIB
_PAGES = Claim("pages", {"mem": f"memory@3={_SIZE},hugepages-2Mi@3={_PAGES_BYTES}"})
_WIDE = Claim("wide", {"near": f"memory@2={_SIZE}", "far": f"memory@3={_SIZE}"})
_CLOSED = Claim("closed", {"mem": f"memory@1={_SIZE}"})
_HUGEPAGES_FLAGS = 0x40000 | mmap.MAP_ANONYMOUS | mmap.MAP_PRIVATE  # with MAP_HUGETLB

_CRUN = "crun"
_RUNTIME_TABLES = f"""
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{_CRUN}]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{_CRUN}.options]
  BinaryName = "/usr/bin/crun"
"""


def _claim_is_answered_and_specified(host: Host) -> str:
    refusal = claims.prepare(_DB)
    expect(not refusal, refusal)
    (device,) = claims.read(_DB.specification_file)["devices"]
    (hook,) = device["containerEdits"]["hooks"]
    program = str(claims.HOOK_PROGRAM)
    expect(hook["path"] == program, f"the hook's program is {hook}")
    expect(claims.HOOK_PROGRAM.is_file(), f"the package has no {program}")
    table = host.plugin.accounting()["machineState"]["1"]["memoryMap"]["memory"]
    expect(table["reserved"] == _SIZE, f"the accounting of node 1 is {table}")
    return f"{claims.answer_of(_DB)}, {hook}"


def _container_without_limits_gets_the_claim(host: Host) -> str:
    pod = host.kubelet.run(claims.pod_of("db", _DB.devices))
    found = claims.expect_on(host, pod, "c0", {1}, _SIZE)
    allowed = {memory.status(pid)["Mems_allowed_list"] for pid in memory.pids(pod, "c0")}
    expect(allowed == {"1"}, f"its processes have Mems_allowed_list {allowed}")
    claims.wait_for_containers(host, _DB, "db/c0")
    return found


def _second_container_without_limits_is_refused(host: Host) -> str:
    pod = host.kubelet.run_sandbox(claims.pod_of("db-2", _DB.devices))
    text = claims.refusal(host, pod)
    expect("nothing is left of the 256Mi memory of claim e2e/db" in text, text)
    expect("db/c0" in text, text)
    host.kubelet.remove(pod)
    return text


def _restart_of_the_container_keeps_its_node(host: Host) -> str:
    pod = host.kubelet.pod("db")
    host.kubelet.client.stop_container(pod.container_ids["c0"])
    claims.wait_for_containers(host, _DB)
    host.kubelet.run_container(pod, "c0")
    found = claims.expect_on(host, pod, "c0", {1}, _SIZE)
    claims.wait_for_containers(host, _DB, "db/c0")
    return found


def _restarts_keep_the_accounting(host: Host) -> str:
    """Restart the plugin after SIGTERM and SIGKILL, and containerd after SIGKILL."""
    before = claims.status(host), host.running(), host.plugin.accounting()

    def compare(what: str) -> None:
        after = claims.status(host), host.running(), host.plugin.accounting()
        expect(after == before, f"{what} changes {before} to {after}")

    with host.without_plugin():
        pass
    compare("a restart of the plugin")
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.crash()
        host.plugin.restart()
        host.runtime.wait_for_plugin(launched=False)
    compare("a crash of the plugin")
    host.restart_runtime(killed=True)
    compare("a crash of containerd")
    return f"{before[0]['db']}"


def _unprepared_claim_is_charged_while_a_container_runs(host: Host) -> str:
    claims.unprepare(_DB)
    with host.without_plugin():
        pass
    left = claims.wait_for_containers(host, _DB, "db/c0")
    expect(left["prepared"] is False, f"{left}")
    table = host.plugin.accounting()["machineState"]["1"]["memoryMap"]["memory"]
    expect(table["reserved"] == _SIZE, f"the accounting of node 1 is {table}")
    other = host.kubelet.run_sandbox(claims.pod_of("db-3", _DB.devices, 64 * MIB))
    text = claims.refusal(host, other)
    expect("unresolvable CDI devices" in text, text)
    pod = host.kubelet.pod("db")
    host.kubelet.client.stop_container(pod.container_ids["c0"])
    wait_until(lambda: "db" not in claims.status(host), "the release of the claim")
    host.plugin.wait_for_empty_accounting()
    return f"{left}; another container: {text}"


def _containers_with_limits_share_a_claim(host: Host) -> str:
    expect(not claims.prepare(_SHARED), "the claim is refused")
    half = _SIZE // 2
    pod = host.kubelet.run(claims.pod_of("halves", _SHARED.devices, half, half))
    found = [claims.expect_on(host, pod, name, {2}, half) for name in ("c0", "c1")]
    claims.wait_for_containers(host, _SHARED, "halves/c0", "halves/c1")
    return "; ".join(found)


def _limit_above_the_rest_is_refused(host: Host) -> str:
    one = host.kubelet.run_sandbox(claims.pod_of("more", _SHARED.devices, _SIZE // 2))
    full = claims.refusal(host, one)
    expect("exceeds what is left of claim e2e/shared: 0 of 256Mi" in full, full)
    host.kubelet.remove(host.kubelet.pod("halves"))
    claims.wait_for_containers(host, _SHARED)
    large = host.kubelet.run_sandbox(claims.pod_of("large", _SHARED.devices, 257 * MIB))
    text = claims.refusal(host, large)
    expect("its memory limit of 257Mi exceeds what is left" in text, text)
    host.kubelet.run_container(one, "c0")
    claims.wait_for_containers(host, _SHARED, "more/c0")
    host.kubelet.remove(one)
    claims.unprepare(_SHARED)
    return f"{full}; {text}"


def _hugepages_are_limited_to_the_claim(host: Host) -> str:
    """Run a container that requests the claim's pages, and one whose pod lets it use none."""
    expect(not claims.prepare(_PAGES), "the claim is refused")
    found = []
    for pages_bytes in (_PAGES_BYTES, 0):
        pod = host.kubelet.run(claims.pod_of("pages", _PAGES.devices, pages_bytes=pages_bytes))
        files = host.runtime.hugepage_limit_files
        limits = {file: memory.read(pod, file, "c0") for file in files}
        expect(limits == dict.fromkeys(files, str(_PAGES_BYTES)), f"{limits}")
        usable = [mib for mib in range(2, 12, 2) if _can_use_pages(pod, mib)]
        expected = [*range(2, pages_bytes // MIB + 1, 2)]
        expect(usable == expected, f"usable MiB of hugepages: {usable}, not {expected}")
        one = claims.expect_on(host, pod, "c0", {3}, _SIZE)
        found.append(f"{one}, {limits}, usable MiB of hugepages {usable}")
        host.kubelet.remove(pod)
    claims.unprepare(_PAGES)
    return "; ".join(found)


def _can_use_pages(pod: Pod, mib: int) -> bool:
    """Return whether a process of the container's cgroup can map and write hugepages."""
    procs = cgroups.container(pod.parent, pod.container_ids["c0"]) / "cgroup.procs"
    program = f"import mmap; mmap.mmap(-1, {mib * MIB}, flags={_HUGEPAGES_FLAGS}).write(b'x')"
    script = f'echo $$ > {procs} && exec python3 -c "{program}"'
    command = unprotected("/bin/sh", "-c", script)
    return not subprocess.run(command, check=False, timeout=TIMEOUT_S).returncode


def _claim_of_two_nodes_and_one_of_its_requests(host: Host) -> str:
    expect(not claims.prepare(_WIDE), "the claim is refused")
    near, _far = _WIDE.devices
    one = host.kubelet.run(claims.pod_of("one", (near,), 128 * MIB))
    both = host.kubelet.run(claims.pod_of("both", _WIDE.devices))
    found = [claims.expect_on(host, one, "c0", {2}, 128 * MIB)]
    found.append(claims.expect_on(host, both, "c0", {2, 3}, 2 * _SIZE - 128 * MIB))
    state = claims.wait_for_containers(host, _WIDE, "both/c0", "one/c0")
    expect(state["nodes"] == [2, 3], f"{state}")
    host.remove_all()
    claims.unprepare(_WIDE)
    return "; ".join(found)


def _claim_without_room_is_refused(host: Host) -> str:
    """Fill a node by a Guaranteed pod without a claim; when it has ended, the claim fits."""
    size = nodes.smallest_bytes(host) - _SIZE // 2
    taker = host.kubelet.run(PodSpec("taker", (ContainerSpec("main", size),)))
    (node,) = host.nodes(taker)
    late = Claim("late", {"mem": f"memory@{node}={_SIZE}"})
    refusal = claims.prepare(late)
    expect(f"claim e2e/late cannot be prepared: NUMA node {node} has memory " in refusal, refusal)
    expect("free of 256Mi requested" in refusal, refusal)
    expect(not late.specification_file.exists(), "there is a CDI specification")
    expect("late" not in claims.status(host), "the claim is charged")
    host.kubelet.remove(taker)
    host.plugin.wait_for_empty_accounting()
    again = claims.prepare(late)
    expect(not again, again)
    claims.unprepare(late)
    return refusal


def _without_the_plugin_no_container_starts(host: Host) -> str:
    return _expect_closed(host, "")


def _with_crun_no_container_starts_either(host: Host) -> str:
    """Find the text of the hook in the system log, because crun does not show it."""
    text = _expect_closed(host, _CRUN)
    return f"{text}; system log: {_system_log()}"


def _expect_closed(host: Host, handler: str) -> str:
    """Create a container while the plugin does not run, and then again."""
    refusal = claims.prepare(_CLOSED)
    expect(not refusal, refusal)
    pod = host.kubelet.run_sandbox(claims.pod_of("closed", _CLOSED.devices, handler=handler))
    with host.without_plugin():
        text = claims.refusal(host, pod)
        shown = _system_log() if handler else text
        expect("cpuset.mems is 0-4, but claim e2e/closed has NUMA node 1" in shown, shown)
    host.kubelet.run_container(pod, "c0")
    found = claims.expect_on(host, pod, "c0", {1}, _SIZE)
    claims.wait_for_containers(host, _CLOSED, "closed/c0")
    host.kubelet.remove(pod)
    claims.unprepare(_CLOSED)
    return f"{text}; with the plugin {found}"


def _system_log() -> str:
    """Return the last line of the hook program in the system log."""
    lines = systemd.journal("--identifier=claim-hook", "--output=cat").splitlines()
    return lines[-1] if lines else ""


_ONE = (
    Check("claim_is_answered_and_specified", _claim_is_answered_and_specified),
    Check("container_without_limits_gets_the_claim", _container_without_limits_gets_the_claim),
    Check(
        "second_container_without_limits_is_refused", _second_container_without_limits_is_refused
    ),
    Check("restart_of_the_container_keeps_its_node", _restart_of_the_container_keeps_its_node),
    Check("restarts_keep_the_accounting", _restarts_keep_the_accounting),
    Check(
        "unprepared_claim_is_charged_while_a_container_runs",
        _unprepared_claim_is_charged_while_a_container_runs,
    ),
)
_LIMITS = (
    Check("containers_with_limits_share_a_claim", _containers_with_limits_share_a_claim),
    Check("limit_above_the_rest_is_refused", _limit_above_the_rest_is_refused),
)
_AMOUNTS = (
    Check("hugepages_are_limited_to_the_claim", _hugepages_are_limited_to_the_claim),
    Check(
        "claim_of_two_nodes_and_one_of_its_requests", _claim_of_two_nodes_and_one_of_its_requests
    ),
    Check("claim_without_room_is_refused", _claim_without_room_is_refused),
)
_FAIL_CLOSED = (
    Check("without_the_plugin_no_container_starts", _without_the_plugin_no_container_starts),
    Check("with_crun_no_container_starts_either", _with_crun_no_container_starts_either),
)

PHASES = (
    Phase(
        name="claims",
        scenarios=(_ONE, _LIMITS, _AMOUNTS, _FAIL_CLOSED),
        settings="claims: {enabled: true}\n",
        runtime_tables=_RUNTIME_TABLES,
    ),
)
