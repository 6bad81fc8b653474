"""Checks of pods that fit: which containers are pinned, their NUMA nodes, memory and accounting.

The machine: four NUMA nodes of about 1 GiB with 64 MiB reserved on each; 0-1 and 2-3 are near.
"""

import json
from typing import Any

from tests.cluster.guest.host import (
    Host,
    anonymous_bytes,
    container_id,
    container_status,
    find_cgroup,
)
from tests.cluster.guest.manifests import (
    MIB,
    WRITE,
    WRITTEN_BYTES,
    container,
    guaranteed,
    pod,
    resources,
    sidecar,
)
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

# The first pod fills most of a node, so that the others are not on the node that is preferred.
_FILLER_MIB = 760
_ENDS = ("/bin/busybox", "true")


def block(nodes: frozenset[int], memory_mib: int, kind: str = "memory") -> dict[str, Any]:
    """Return a block as in the plugin's accounting."""
    return {"numaAffinity": sorted(nodes), "type": kind, "size": memory_mib * MIB}


def one_node(host: Host, name: str, container_name: str = "main") -> frozenset[int]:
    """Return `cpuset.mems` of a running container, which must be one NUMA node."""
    nodes = host.nodes(name, container_name)
    expect(len(nodes) == 1, f"cpuset.mems of {name}/{container_name} is {sorted(nodes)}")
    return nodes


def _expect_assignments(host: Host, name: str, expected: dict[str, Any]) -> None:
    found = host.assignments(name)
    expect(found == expected, f"the accounting of {name} has {found}, not {expected}")


def _memory_mib(assignments: dict[str, Any]) -> dict[str, int]:
    """Return container -> its memory, of all its blocks."""
    return {
        name: sum(each["size"] for each in blocks if each["type"] == "memory") // MIB
        for name, blocks in assignments.items()
    }


def _guaranteed_container_is_on_one_node(host: Host) -> str:
    host.run(guaranteed("filler", _FILLER_MIB))
    found = host.run(guaranteed("one", 200, WRITE))
    expect(found["status"]["qosClass"] == "Guaranteed", str(found["status"]))
    filler, nodes = one_node(host, "filler"), one_node(host, "one")
    expect(filler != nodes, f"both are on {sorted(nodes)}")
    _expect_assignments(host, "one", {"main": [block(nodes, 200)]})
    return f"node {sorted(nodes)}"


def _written_memory_is_on_the_node(host: Host) -> str:
    (node,) = host.nodes("one")
    path = find_cgroup(container_id(host.pod("one"), "main"))

    def written() -> dict[int, int] | None:
        found = anonymous_bytes(path)
        return found if sum(found.values()) >= WRITTEN_BYTES else None

    found = wait_until(written, f"{WRITTEN_BYTES} bytes of anonymous memory")
    elsewhere = sum(size for each, size in found.items() if each != node)
    expect(elsewhere < MIB, f"{elsewhere} bytes are not on node {node}: {found}")
    return f"node {node}: {found}"


def _two_containers_are_pinned(host: Host) -> str:
    host.run(pod("two", [container("a", resources(100)), container("b", resources(150))]))
    nodes = {name: one_node(host, "two", name) for name in ("a", "b")}
    _expect_assignments(host, "two", {"a": [block(nodes["a"], 100)], "b": [block(nodes["b"], 150)]})
    return str({name: sorted(each) for name, each in nodes.items()})


def _memory_of_init_containers_is_used_again(host: Host) -> str:
    """Start a pod that needs as much as its largest init container."""
    init = [container("init-1", resources(300), _ENDS), container("init-2", resources(100), _ENDS)]
    host.run(pod("init", [container("main", resources(150))], init))
    nodes = one_node(host, "init")
    found = host.assignments("init")
    memory_mib = _memory_mib(found)
    expect(memory_mib["main"] == 150 and sum(memory_mib.values()) == 300, f"{found}")
    affinities = {tuple(each["numaAffinity"]) for blocks in found.values() for each in blocks}
    expect(affinities == {tuple(nodes)}, f"not all on {sorted(nodes)}: {found}")
    return f"node {sorted(nodes)}: {memory_mib}"


def _sidecar_keeps_its_memory(host: Host) -> str:
    init = [sidecar("sidecar", resources(100)), container("init", resources(120), _ENDS)]
    found = host.run(pod("side", [container("main", resources(150))], init))
    expect("running" in container_status(found, "sidecar")["state"], str(found["status"]))
    nodes = {name: one_node(host, "side", name) for name in ("sidecar", "main")}
    memory_mib = _memory_mib(host.assignments("side"))
    needed = memory_mib["sidecar"] == 100 and memory_mib["main"] == 150
    expect(needed and sum(memory_mib.values()) == 250, f"{memory_mib}")
    return f"{ {name: sorted(each) for name, each in nodes.items()} }: {memory_mib}"


def _hugepages_are_limited_and_on_the_node(host: Host) -> str:
    host.run(pod("huge", [container("main", resources(100, hugepages_mib=8))]))
    nodes = one_node(host, "huge")
    for file in ("hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"):
        limit = host.read("huge", "main", file)
        expect(limit == str(8 * MIB), f"{file} is {limit}")
    blocks = sorted(host.assignments("huge")["main"], key=lambda each: str(each["type"]))
    expected = [block(nodes, 8, "hugepages-2Mi"), block(nodes, 100)]
    expect(blocks == expected, f"the accounting has {blocks}, not {expected}")
    return f"node {sorted(nodes)}: {blocks}"


def _other_classes_are_not_managed(host: Host) -> str:
    limits = {"limits": {"memory": "100Mi"}, "requests": {"memory": "50Mi"}}
    for name, needs in (("burstable", limits), ("besteffort", {})):
        found = host.run(pod(name, [container("main", needs)]))
        qos = found["status"]["qosClass"]
        expect(qos.lower() == name, f"{name} has the class {qos}")
        nodes = host.nodes(name)
        expect(not nodes, f"cpuset.mems of {name} is {sorted(nodes)}")
        _expect_assignments(host, name, {})
    return "cpuset.mems is empty in both"


def _pod_level_resources_are_placed(host: Host) -> str:
    """Two containers without limits share the limit of their pod."""
    manifest = pod("shared", [container("a"), container("b")])
    manifest["spec"]["resources"] = resources(300)
    found = host.run(manifest)
    expect(found["status"]["qosClass"] == "Guaranteed", str(found["status"]))
    nodes = {name: one_node(host, "shared", name) for name in ("a", "b")}
    expect(nodes["a"] == nodes["b"], f"{nodes}")
    memory_mib = _memory_mib(host.assignments("shared"))
    expect(sum(memory_mib.values()) == 300, f"charged: {memory_mib}")
    return f"node {sorted(nodes['a'])}: {memory_mib}"


def _status_lists_the_containers(host: Host) -> str:
    done = host.plugin.command("status", "--output", "json")
    expect(done.returncode == 0, f"status: {done.returncode}: {done.stdout}{done.stderr}")
    rows = json.loads(done.stdout)["containers"]
    listed = {(row["pod"], row["container"]): row["nodes"] for row in rows}
    for name in ("one", "two", "init", "side", "huge", "shared"):
        found = host.pod(name)
        for each in found["status"]["containerStatuses"]:
            key = (found["metadata"]["name"], each["name"])
            expected = sorted(host.nodes(name, each["name"]))
            expect(listed.get(key) == expected, f"{key}: {listed.get(key)}, not {expected}")
    return f"{len(listed)} containers"


def _removal_frees_the_accounting(host: Host) -> str:
    """Remove one manifest; the other pods keep what they have."""
    uid = host.pod("two")["metadata"]["uid"]
    before = host.plugin.accounting()["entries"]
    host.remove("two")
    after = host.plugin.accounting()["entries"]
    before.pop(uid)
    expect(after == before, f"the others changed from {before} to {after}")
    return f"{len(after)} pods are left"


PLACEMENT = (
    Check("guaranteed_container_is_on_one_node", _guaranteed_container_is_on_one_node),
    Check("written_memory_is_on_the_node", _written_memory_is_on_the_node),
    Check("two_containers_are_pinned", _two_containers_are_pinned),
    Check("memory_of_init_containers_is_used_again", _memory_of_init_containers_is_used_again),
    Check("sidecar_keeps_its_memory", _sidecar_keeps_its_memory),
    Check("hugepages_are_limited_and_on_the_node", _hugepages_are_limited_and_on_the_node),
    Check("other_classes_are_not_managed", _other_classes_are_not_managed),
    Check("pod_level_resources_are_placed", _pod_level_resources_are_placed),
    Check("status_lists_the_containers", _status_lists_the_containers),
    Check("removal_frees_the_accounting", _removal_frees_the_accounting),
)
