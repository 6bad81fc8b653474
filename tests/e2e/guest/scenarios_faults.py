"""Scenario of faults: runtime and plugin are killed while pods run, and containers are resized.

Four pods take part. Before the faults there are "steps", whose init container has ended and whose
main container does not run yet, so node 0 is reserved for it; "full", whose memory fills node 1,
with hugepages; and "loose", a Burstable pod. "newcomer" has two containers; the first is created
after the first fault, and the second while no plugin runs.

The machine: four NUMA nodes of about 1 GiB with 64 MiB reserved on each; 0-1 and 2-3 are near.
"""

from typing import Any

from tests.e2e.guest.scenarios_placement import LARGE, MEDIUM, MIB, SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_GROWN = 400 * MIB  # more than SMALL, and still fits on its node

_POOL_NODE = 3

_FULL = PodSpec("full", (ContainerSpec("main", MEDIUM, hugepages_bytes={"2MB": 4 * MIB}),))
_STEPS = PodSpec(
    "steps",
    (
        ContainerSpec("init", MEDIUM, command=("/bin/busybox", "true")),
        ContainerSpec("main", MEDIUM),
    ),
)
_LOOSE = PodSpec("loose", (ContainerSpec("main", SMALL, cpu_milli=500),), "burstable")
_NEWCOMER = PodSpec("newcomer", (ContainerSpec("main", MEDIUM), ContainerSpec("late", SMALL)))


def _pods_are_placed(host: Host) -> str:
    host.plugin.wait_for_empty_accounting()
    steps = host.kubelet.run_sandbox(_STEPS)
    host.kubelet.run_container(steps, "init")
    host.kubelet.wait_for_exit(steps, "init")
    full = _nodes(host.kubelet.run(_FULL))
    loose = _nodes(host.kubelet.run(_LOOSE))
    expect(not loose, f"the Burstable container got cpuset.mems {sorted(loose)}")
    reserved = _assigned_nodes(host, "steps", "init")
    expect(
        reserved == {0} and full == {1},
        f"steps has {sorted(reserved)}, full is on {sorted(full)}",
    )
    expect(host.plugin.records("container_ended")[-1]["pod"] == "steps", "init has not ended")
    return "steps has node 0, full is on 1"


def _killed_runtime_changes_nothing(host: Host) -> str:
    running, accounting, pid = host.running(), host.plugin.accounting(), host.plugin.wait_for_one()
    host.restart_runtime(killed=True)
    successor = host.plugin.wait_for_one(but=pid if host.plugin.launched else 0)
    expect(host.plugin.launched or successor == pid, f"process {successor} is not {pid}")
    _expect_same(host, running, accounting)
    return f"plugin {pid}, then {successor}; {sorted(running)}"


def _new_pod_avoids_running_containers(host: Host) -> str:
    newcomer = host.kubelet.run_sandbox(_NEWCOMER)
    host.kubelet.run_container(newcomer, "main")
    nodes = _nodes(newcomer)
    expect(
        nodes == {2},
        f"it is on {sorted(nodes)}; 0 is reserved, 1 is full, 2 is free",
    )
    return f"node {sorted(nodes)}"


def _unreported_end_releases_memory(host: Host) -> str:
    """End a pod that is older than the runtime process; containerd does not report its end."""
    full = host.kubelet.pod("full")
    before = _memory(host.plugin.accounting(), 1)
    host.kubelet.remove(full)

    def state_without_it() -> dict[str, Any] | None:
        accounting = host.plugin.accounting()
        return None if full.uid in accounting["entries"] else accounting

    text = "release of a pod whose end is not reported"
    after = _memory(wait_until(state_without_it, text), 1)
    freed = after["free"] - before["free"]
    expect(freed == MEDIUM and after["reserved"] == 0, f"node 1: {before}, then {after}")
    return f"node 1: {freed} bytes"


def _killed_plugin_changes_nothing(host: Host) -> str:
    """Kill the plugin, and create a container before it is restarted."""
    running, accounting, pid = host.running(), host.plugin.accounting(), host.plugin.wait_for_one()
    newcomer = host.kubelet.pod("newcomer")
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.crash()
        host.kubelet.run_container(newcomer, "late")
        nodes = _nodes(newcomer, "late")
        expect(not nodes, f"without a plugin cpuset.mems is {sorted(nodes)}")
        host.plugin.restart()
        host.runtime.wait_for_plugin(launched=False)
    successor = host.plugin.wait_for_one(but=pid)
    _expect_same(host, running, accounting, but=(newcomer.uid, "late"))
    return f"plugin {pid}, then {successor}; {sorted(running)}"


def _missed_container_is_pinned(host: Host) -> str:
    newcomer = host.kubelet.pod("newcomer")
    nodes = wait_until(lambda: _nodes(newcomer, "late"), "cpuset.mems of the container")
    assigned = _assigned_nodes(host, "newcomer", "late")
    expect(
        nodes == assigned == {1}, f"it is on {sorted(nodes)}, by the state on {sorted(assigned)}"
    )
    return f"node {sorted(nodes)}"


def _reservation_is_used(host: Host) -> str:
    """Start the main container after the init container; it fits only in the reservation."""
    steps = host.kubelet.pod("steps")
    before = _memory(host.plugin.accounting(), 0)
    host.kubelet.run_container(steps, "main")
    nodes = _nodes(steps)
    after = _memory(host.plugin.accounting(), 0)
    expect(nodes == {0}, f"it is on {sorted(nodes)}, not where its init container was")
    expect(before == after, f"it used more than the reservation: {before}, then {after}")
    return f"node {sorted(nodes)}"


def _resize_grows_in_place(host: Host) -> str:
    before, after = _resize(host, _GROWN)
    expect(before == after, f"from {sorted(before)} to {sorted(after)}, though it fits")
    return f"node {sorted(after)}"


def _resize_beyond_adds_a_node(host: Host) -> str:
    before, after = _resize(host, LARGE)
    expect(before < after and len(after) == 2, f"from {sorted(before)} to {sorted(after)}")
    others = _assigned_nodes(host, "steps", "main") | _assigned_nodes(host, "newcomer", "main")
    expect(not after & others, f"{sorted(after)} are shared with others: {sorted(others)}")
    return f"from {sorted(before)} to {sorted(after)}"


def _smaller_resize_keeps_the_nodes(host: Host) -> str:
    before, after = _resize(host, SMALL)
    expect(before == after, f"from {sorted(before)} to {sorted(after)}, where its pages are")
    return f"nodes {sorted(after)}"


def _changed_pool_is_detected(host: Host) -> str:
    """Add hugepages to a node while pods run; the plugin checks periodically."""
    before = host.plugin.accounting()
    pages = cgroups.hugepage_count(_POOL_NODE)
    cgroups.set_hugepage_count(_POOL_NODE, pages + 4)
    try:
        wait_until(
            lambda: _pool(host.plugin.accounting())["total"] == _pool(before)["total"] + 8 * MIB,
            "the new number of hugepages in the state",
        )
        after = host.plugin.accounting()
    finally:
        cgroups.set_hugepage_count(_POOL_NODE, pages)
    expect(after["entries"] == before["entries"], f"from {before} to {after}")
    return f"node {_POOL_NODE}: {_pool(after)}"


def _pool(accounting: dict[str, Any]) -> dict[str, int]:
    return dict(accounting["machineState"][str(_POOL_NODE)]["memoryMap"]["hugepages-2Mi"])


def _resize(host: Host, memory_bytes: int) -> tuple[frozenset[int], frozenset[int]]:
    """Resize the newcomer's second container; return its nodes before and after.

    The limit, the entry in the state and the sum of its tables have to match.
    """
    pod = host.kubelet.pod("newcomer")
    before, accounting = _nodes(pod, "late"), host.plugin.accounting()
    reserved = _reserved(accounting) - _block(accounting, pod.uid, "late")["size"]
    host.kubelet.resize_memory(pod, "late", memory_bytes)
    assigned = _assigned_nodes(host, "newcomer", "late")
    text = f"cpuset.mems {sorted(assigned)}, as in the state"
    wait_until(lambda: _nodes(pod, "late") == assigned, text)
    accounting = host.plugin.accounting()
    block = _block(accounting, pod.uid, "late")
    limit = cgroups.read(pod.parent, pod.container_ids["late"], "memory.max")
    expect(limit == str(memory_bytes), f"memory.max is {limit}: the resize was not applied")
    expect(block["size"] == memory_bytes, f"the state has {block}")
    expect(
        _reserved(accounting) == reserved + memory_bytes, f"the tables do not match: {accounting}"
    )
    return before, _nodes(pod, "late")


def _expect_same(
    host: Host,
    running: dict[str, Any],
    accounting: dict[str, Any],
    but: tuple[str, str] | None = None,
) -> None:
    """Wait until the plugin's state is as before, except for a new container `but`.

    A restarted plugin has an empty state until Synchronize.
    """

    def is_same() -> bool:
        return _without(host.plugin.accounting(), but) == accounting

    try:
        wait_until(is_same, "the previous state")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {accounting}, then {host.plugin.accounting()}") from error
    after = host.running()
    changed = {
        name: (was, after.get(name)) for name, was in running.items() if after.get(name) != was
    }
    expect(running and not changed, f"containers before and after: {changed}")


def _without(accounting: dict[str, Any], container: tuple[str, str] | None) -> dict[str, Any]:
    """Return the state without the memory of a container on one node."""
    if container is None:
        return accounting
    uid, name = container
    entries = {each: dict(containers) for each, containers in accounting["entries"].items()}
    for block in entries.get(uid, {}).pop(name, ()):
        (node,) = block["numaAffinity"]
        state = accounting["machineState"][str(node)]
        state["numberOfAssignments"] -= 1
        state["memoryMap"][block["type"]]["reserved"] -= block["size"]
        state["memoryMap"][block["type"]]["free"] += block["size"]
    return {**accounting, "entries": entries}


def _nodes(pod: Pod, container: str = "main") -> frozenset[int]:
    """Return `cpuset.mems`. Host.nodes() would compare modes; here each node is expected."""
    return cgroups.nodes(pod.parent, pod.container_ids[container])


def _assigned_nodes(host: Host, pod: str, container: str) -> frozenset[int]:
    """Return the nodes of a container's memory in the plugin's state."""
    accounting = host.plugin.accounting()
    return frozenset(_block(accounting, host.kubelet.pod(pod).uid, container)["numaAffinity"])


def _block(accounting: dict[str, Any], uid: str, container: str) -> dict[str, Any]:
    blocks = accounting["entries"].get(uid, {}).get(container, ())
    found = [block for block in blocks if block["type"] == "memory"]
    expect(len(found) == 1, f"the state has {blocks} for {container}")
    return dict(found[0])


def _memory(accounting: dict[str, Any], node: int) -> dict[str, int]:
    return dict(accounting["machineState"][str(node)]["memoryMap"]["memory"])


def _reserved(accounting: dict[str, Any]) -> int:
    """Return the sum of reserved memory on all nodes."""
    return sum(_memory(accounting, int(node))["reserved"] for node in accounting["machineState"])


FAULTS = (
    Check("pods_are_placed", _pods_are_placed),
    Check("killed_runtime_changes_nothing", _killed_runtime_changes_nothing),
    Check("new_pod_avoids_running_containers", _new_pod_avoids_running_containers),
    Check("unreported_end_releases_memory", _unreported_end_releases_memory),
    Check("killed_plugin_changes_nothing", _killed_plugin_changes_nothing),
    Check("missed_container_is_pinned", _missed_container_is_pinned),
    Check("reservation_is_used", _reservation_is_used),
    Check("resize_grows_in_place", _resize_grows_in_place),
    Check("resize_beyond_adds_a_node", _resize_beyond_adds_a_node),
    Check("smaller_resize_keeps_the_nodes", _smaller_resize_keeps_the_nodes),
    Check("changed_pool_is_detected", _changed_pool_is_detected, ("external",)),
)
