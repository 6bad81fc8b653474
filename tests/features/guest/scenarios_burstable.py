"""Scenarios of Burstable pods: pinned containers, a full NUMA node, resizes, restarts.

A container "main" is pinned to a node. A neighbour of another pod fills part of that node without
being pinned, and main then writes more than is left. The kernel ends the process with the most
memory, to which `oom_score_adj` adds thousandths of the node.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.features.guest import memory
from tests.features.guest.feature import Phase, restart_with
from tests.features.guest.memory import MIB
from tests.machines.guest import cgroups, node_memory
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.processes import output
from tests.machines.guest.waiting import wait_until

_SCORE = -500
_EVIDENCE = "evidence: [memory-reservation, annotation], namespaces: [e2e]"
_WITHOUT_SCORE = f"burstablePods: {{{_EVIDENCE}}}\n"
SETTINGS = f"burstablePods: {{{_EVIDENCE}, oomScoreAdj: {_SCORE}}}\n"
_ANNOTATIONS = {"memory.numamem.io/container.main": "guaranteed"}

_ALL_NODES = frozenset(range(5))
_LIMIT_MIB = 256
# Of the container on the node that becomes full: what it writes first, and what its limit has more
# than it writes. The node lacks more than the kernel can take from caches unseen.
_FIRST_MIB, _SPARE_MIB, _MISSING_MIB = 32, 64, 128
# Of the machine. The kubelet gives a neighbour that requests more a lower oom_score_adj.
_NEIGHBOUR_REQUEST_PERCENT = 60
_BEGIN = "begin"
_ATTEMPTS = 3


def _request_at_the_limit_is_pinned(host: Host) -> str:
    limit = _LIMIT_MIB * MIB
    main = ContainerSpec("main", limit, command=memory.writer(64), memory_low_bytes=limit)
    other = ContainerSpec("other", limit, memory_low_bytes=limit // 2)
    pod = host.kubelet.run(PodSpec("fixed", (main, other), "burstable"))
    (node,) = host.nodes(pod)
    expect(host.nodes(pod, "other") == frozenset(), "the other container is pinned")
    written = memory.wait_for_written(pod, 64)
    expect(written[node] >= 64, f"not all of it is on node {node}: {written}")
    scores = {name: _score(pod, name) for name in ("main", "other")}
    expect(scores["main"] == _SCORE < 0 < scores["other"], f"{scores}")
    record = host.plugin.records("burstable_pinned")[-1]
    expect((record["evidence"], record["nodes"]) == ("memory-reservation", str(node)), f"{record}")
    expect(_charged(host) == {"main": limit}, f"{_charged(host)}")
    return f"node {node}, MiB by node {dict(written)}, oom_score_adj {scores}"


def _annotation_is_refuted_by_the_score(host: Host) -> str:
    spec = ContainerSpec("main", _LIMIT_MIB * MIB)  # which requests a half
    pod = host.kubelet.run(PodSpec("refuted", (spec,), "burstable", _ANNOTATIONS))
    expect(host.nodes(pod) == frozenset(), "it is pinned")
    record = host.plugin.records("burstable_not_pinned")[-1]
    host.kubelet.remove(pod)
    expect("oom_score_adj shows a memory request below" in record["cause"], f"{record}")
    return str(record["cause"])


def _restarts_keep_it(host: Host) -> str:
    before, charged = host.running(), _charged(host)
    with host.without_plugin():
        pass
    expect(_charged(host) == charged, f"the plugin restarted: {_charged(host)}, not {charged}")
    host.restart_runtime(killed=True)
    expect(_charged(host) == charged, f"containerd restarted: {_charged(host)}, not {charged}")
    restart_with(host, "")
    expect(_charged(host) == charged, f"the setting is off: {_charged(host)}, not {charged}")
    restart_with(host, SETTINGS)
    expect(_charged(host) == charged, f"the setting is on: {_charged(host)}, not {charged}")
    expect(host.running() == before, f"{host.running()}, not {before}")
    return f"charged {charged}"


def _resize_of_both_keeps_the_node(host: Host) -> str:
    pod = host.kubelet.pod("fixed")
    before = host.nodes(pod)
    limit = 2 * _LIMIT_MIB * MIB
    host.kubelet.resize_memory(pod, "main", limit, memory_low_bytes=limit)
    expect(host.nodes(pod) == before, "its nodes changed")
    expect(_charged(host) == {"main": limit}, f"{_charged(host)}")
    return f"{_charged(host)}, nodes {sorted(before)}"


def _resize_of_the_limit_unpins(host: Host) -> str:
    pod = host.kubelet.pod("fixed")
    (node,) = host.nodes(pod)
    limit = 3 * _LIMIT_MIB * MIB
    host.kubelet.resize_memory(pod, "main", limit, memory_low_bytes=limit - MIB)
    wait_until(lambda: host.nodes(pod) == _ALL_NODES, "all nodes in cpuset.mems")
    found = memory.numa_stat(pod)["anon"]
    expect(found[node] >= 64 * MIB, f"memory moved away from node {node}: {found}")
    record = host.plugin.records("burstable_unpinned")[-1]
    expect((record["previous_nodes"], record["nodes"]) == (str(node), "0-4"), f"{record}")
    expect(_charged(host) == {}, f"{_charged(host)}")
    return f"{record['cause']}; MiB on node {node}: {found[node] // MIB}"


def _kernel_ends_the_neighbour(host: Host) -> str:
    """Compare what the kernel ends first; the pinned container then writes all that it wants.

    The kernel may end the container as well, although the neighbour's memory is free again: it
    looks for free memory, and then for a process to end, and a processor of the machine can stand
    still between the two. Then the node is filled again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        before = len(_killed())
        full = _fill_a_node(host)
        kills = _wait_for_kills(full)
        ended = _killed()[before:]
        facts = f"oom_kill: {kills}; {ended}; {full.facts}"
        score = f"oom_score_adj:{full.neighbour_score}"
        expect(kills["neighbour"] and ended[0].endswith(score), facts)
        mib = _FIRST_MIB + full.later_mib
        has_ended = wait_until(partial(_written_or_killed, full.pod, mib), f"its end; {facts}")
        if has_ended == "written":
            return f"attempt {attempt}: {facts}"
    raise AssertionError(f"the kernel ended both, {_ATTEMPTS} times: {facts}")


def _written_or_killed(pod: Pod, mib: int) -> str | None:
    """Return what became of a container that writes; None if it still writes."""
    if _kills(pod):
        return "killed"
    try:
        written = memory.numa_stat(pod)["anon"].values()
    except OSError:  # it ends just now
        return None
    return "written" if sum(written) >= mib * MIB else None


def _without_the_score_it_ends_itself(host: Host) -> str:
    restart_with(host, _WITHOUT_SCORE)
    full = _fill_a_node(host)
    kills = _wait_for_kills(full)
    expect(
        kills["neighbour"] == 0 < kills["large"], f"oom_kill: {kills}; {_killed()}; {full.facts}"
    )
    return f"oom_kill {kills}, {full.facts}"


@dataclass(frozen=True, slots=True)
class _FullNode:
    """A pinned pod that writes `later_mib`, and its neighbour, which leaves too little for that."""

    pod: Pod
    neighbour: Pod
    later_mib: int
    neighbour_score: int
    """Its `oom_score_adj`."""
    facts: str


def _fill_a_node(host: Host) -> _FullNode:
    """Let a pinned container write more than its node has left.

    It writes half of the smallest node, for which there is room again when the neighbour has ended.
    Pods of an earlier check are removed.
    """
    host.remove_all()
    later_mib = min(node_memory.writable_mib(node) for node in range(4)) // 2
    limit = (_FIRST_MIB + later_mib + _SPARE_MIB) * MIB
    script = (
        f"{_held(_FIRST_MIB)} & while [ ! -e /{_BEGIN} ]; do busybox sleep 0.2; done; "
        f"{_held(later_mib)}"
    )
    main = ContainerSpec(
        "main", limit, command=("/bin/sh", "-c", script), memory_request_bytes=limit
    )
    pod = host.kubelet.run(PodSpec("large", (main,), "burstable", _ANNOTATIONS))
    (node,) = host.nodes(pod)
    memory.wait_for_written(pod, _FIRST_MIB)
    left_mib = node_memory.writable_mib(node)
    neighbour_mib = left_mib - later_mib + _MISSING_MIB
    facts = f"MiB on node {node}: {left_mib} left, neighbour {neighbour_mib}, later {later_mib}"
    request = node_memory.total_mib() * _NEIGHBOUR_REQUEST_PERCENT // 100 * MIB
    command = ("/bin/sh", "-c", _held(neighbour_mib, node))
    other = ContainerSpec("main", request + MIB, command=command, memory_request_bytes=request)
    neighbour = host.kubelet.run(PodSpec("neighbour", (other,), "burstable"))
    found = memory.wait_for_written(neighbour, neighbour_mib)
    expect(found[node] >= neighbour_mib - 16, f"not all of it is there: {found}; {facts}")
    expect(host.nodes(neighbour) == frozenset(), "the neighbour is pinned")
    scores = {each.spec.name: _score(each, "main") for each in (pod, neighbour)}
    Path("/proc", str(memory.pids(pod)[0]), "root", _BEGIN).touch()
    facts = f"{facts}, oom_score_adj {scores}"
    return _FullNode(pod, neighbour, later_mib, scores["neighbour"], facts)


def _held(mib: int, node: int | None = None) -> str:
    """Return a command that writes memory and keeps it, if given on the node's only processor."""
    pinned = "" if node is None else f"busybox taskset {1 << node:x} "
    dd = f"busybox dd if=/dev/zero bs={mib * MIB} count=1"
    return f"{pinned}{dd} | busybox sleep 1000000"


def _wait_for_kills(full: _FullNode) -> dict[str, int]:
    """Wait until the kernel has ended a process of the pods; return pod -> `oom_kill`."""

    def killed() -> dict[str, int] | None:
        found = {pod.spec.name: _kills(pod) for pod in (full.pod, full.neighbour)}
        return found if any(found.values()) else None

    return wait_until(killed, f"a process that the kernel ends; {full.facts}")


def _killed() -> list[str]:
    """Return the kernel's lines about processes that it ended."""
    return [line for line in output("dmesg").splitlines() if "Killed process" in line]


def _kills(pod: Pod) -> int:
    """Return `oom_kill` of a pod's cgroup, which outlives its containers."""
    text = (cgroups.ROOT / pod.parent.lstrip("/") / "memory.events").read_text(encoding="ascii")
    return int(dict(line.split() for line in text.splitlines())["oom_kill"])


def _score(pod: Pod, name: str) -> int:
    pid = memory.pids(pod, name)[0]
    return int(Path("/proc", str(pid), "oom_score_adj").read_text(encoding="ascii"))


def _charged(host: Host) -> dict[str, int]:
    """Return container name -> bytes of memory in the plugin's accounting."""
    return {
        name: sum(block["size"] for block in blocks if block["type"] == "memory")
        for containers in host.plugin.accounting()["entries"].values()
        for name, blocks in containers.items()
    }


_PINNED = (
    Check("request_at_the_limit_is_pinned", _request_at_the_limit_is_pinned),
    Check("annotation_is_refuted_by_the_score", _annotation_is_refuted_by_the_score),
    Check("restarts_keep_it", _restarts_keep_it),
    Check("resize_of_both_keeps_the_node", _resize_of_both_keeps_the_node),
    Check("resize_of_the_limit_unpins", _resize_of_the_limit_unpins),
)
_FULL_NODE = (
    Check("kernel_ends_the_neighbour", _kernel_ends_the_neighbour),
    Check("without_the_score_it_ends_itself", _without_the_score_it_ends_itself),
)

PHASES = (Phase(name="burstable", scenarios=(_PINNED, _FULL_NODE), settings=SETTINGS),)
