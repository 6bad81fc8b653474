"""Scenarios of cpuFollowsMemory: the CPUs of processes, by NUMA node.

The machine has four NUMA nodes with one CPU each, 0 to 3, and one without. Nothing else sets
`cpuset.cpus`, until a state file says that the kubelet's CPU manager is static.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.features.guest import memory, nodes
from tests.features.guest.feature import Phase
from tests.features.guest.memory import MIB
from tests.machines.guest.cgroups import parse_nodes
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_WITH_CPUS = range(4)
_ALL = frozenset(_WITH_CPUS)
_STATE = Path("/var/lib/kubelet/cpu_manager_state")
_LARGE_MIB = 1200


def _pod(name: str, cpu_milli: int = 700, memory_mib: int = 200) -> PodSpec:
    return PodSpec(name, (ContainerSpec("main", memory_mib * MIB, cpu_milli),))


def _cpus_of(ids: Iterable[int]) -> frozenset[int]:
    """Return the CPUs of some NUMA nodes, as the kernel shows them."""
    found = frozenset[int]()
    for node in ids:
        path = Path(f"/sys/devices/system/node/node{node}/cpulist")
        found |= parse_nodes(path.read_text(encoding="ascii").strip())
    return found


def _expect_cpus_of_nodes(pod: Pod) -> str:
    mems, cpus = nodes.allowed(pod)
    expect(cpus == _cpus_of(mems), f"nodes {sorted(mems)}, and CPUs {sorted(cpus)}")
    return f"{pod.spec.name}: nodes {sorted(mems)}, CPUs {sorted(cpus)}"


def _records(host: Host, event: str, pod: str) -> list[dict[str, object]]:
    return [each for each in host.plugin.records(event) if each.get("pod") == pod]


def _each_goes_where_its_request_has_room(host: Host) -> str:
    texts, used = list[str](), set[int]()
    for number in _WITH_CPUS:
        pod = host.kubelet.run(_pod(f"room-{number}"))
        texts.append(_expect_cpus_of_nodes(pod))
        used |= host.nodes(pod)
    expect(used == _ALL, f"nodes {sorted(used)}, although each has one CPU")
    return "; ".join(texts)


def _without_room_it_runs_on_all_cpus(host: Host) -> str:
    pod = host.kubelet.run(_pod("no-room"))
    mems, cpus = nodes.allowed(pod)
    expect(len(mems) == 1, f"nodes {sorted(mems)}")
    expect(cpus == _cpus_of(_ALL), f"CPUs {sorted(cpus)}")
    expect(memory.read(pod, "cpuset.cpus") == "", "cpuset.cpus is set")
    record = wait_until(lambda: _records(host, "cpus_not_set", "no-room"), "its record")[0]
    return f"nodes {sorted(mems)}, CPUs {sorted(cpus)}: {record['cause']}"


def _a_restart_of_the_plugin_changes_nothing(host: Host) -> str:
    def cpusets() -> dict[str, str]:
        return {pod.spec.name: memory.read(pod, "cpuset.cpus") for pod in host.kubelet.pods}

    before, running = cpusets(), host.running()
    with host.without_plugin():
        pass
    expect(host.running() == running, f"{host.running()} instead of {running}")
    expect(cpusets() == before, f"{cpusets()} instead of {before}")
    expect(not host.plugin.records("misaligned"), "its own CPUs count as a hint")
    return f"cpuset.cpus by pod: {before}"


def _explain_shows_the_cpus(host: Host) -> str:
    command = host.plugin.command("explain", "e2e/room-0", "--output", "json")
    (container,) = json.loads(command.stdout)["containers"]
    found = [each for each in container["later"] if each["event"] == "cpus_set"]
    expect(bool(found), f"{container['later']}")
    return f"{found[0]['event']}"


def _a_resize_to_two_nodes_widens_the_cpus(host: Host) -> str:
    pod = host.kubelet.run(_pod("grows", memory_mib=400))
    before = _expect_cpus_of_nodes(pod)
    host.kubelet.resize_memory(pod, "main", _LARGE_MIB * MIB)
    wait_until(lambda: len(nodes.allowed(pod)[0]) == 2, "two NUMA nodes")
    return f"{before}, then {_expect_cpus_of_nodes(pod)}"


def _others_keep_all_cpus(host: Host) -> str:
    main = ContainerSpec("main", 100 * MIB, 500)
    pod = host.kubelet.run(PodSpec("burstable", (main,), "burstable"))
    cpus = nodes.allowed(pod)[1]
    expect(cpus == _cpus_of(_ALL), f"CPUs {sorted(cpus)}")
    return f"CPUs {sorted(cpus)}"


def _a_static_cpu_manager_is_left_alone(host: Host) -> str:
    earlier = len(host.plugin.records("cpus_left_to_kubelet"))
    _STATE.parent.mkdir(parents=True, exist_ok=True)
    _STATE.write_text(
        json.dumps({"policyName": "static", "defaultCpuSet": "0-3", "checksum": 0}),
        encoding="ascii",
    )
    wait_until(lambda: host.plugin.records("cpus_left_to_kubelet")[earlier:], "the record")
    for name in ("static-1", "static-2"):
        pod = host.kubelet.run(_pod(name))
        cpus = memory.read(pod, "cpuset.cpus")
        expect(cpus == "", f"{name} has the CPUs {cpus}")
        expect(len(host.nodes(pod)) == 1, f"{name} is not pinned")
    count = len(host.plugin.records("cpus_left_to_kubelet")) - earlier
    expect(count == 1, f"{count} records")
    _STATE.unlink()
    wait_until(lambda: host.plugin.records("cpus_follow_memory"), "the record of the end")
    return f"one record; then {_expect_cpus_of_nodes(host.kubelet.run(_pod('after')))}"


_PLACEMENT = (
    Check("each_goes_where_its_request_has_room", _each_goes_where_its_request_has_room),
    Check("without_room_it_runs_on_all_cpus", _without_room_it_runs_on_all_cpus),
    Check("a_restart_of_the_plugin_changes_nothing", _a_restart_of_the_plugin_changes_nothing),
    Check("explain_shows_the_cpus", _explain_shows_the_cpus),
)
_RESIZE = (
    Check("a_resize_to_two_nodes_widens_the_cpus", _a_resize_to_two_nodes_widens_the_cpus),
    Check("others_keep_all_cpus", _others_keep_all_cpus),
)
_STATIC = (Check("a_static_cpu_manager_is_left_alone", _a_static_cpu_manager_is_left_alone),)

PHASES = (
    Phase(
        name="cpu-follows-memory",
        scenarios=(_PLACEMENT, _RESIZE, _STATIC),
        settings="cpuFollowsMemory: prefer\n",
    ),
)
