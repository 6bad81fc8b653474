"""Scenario of CRI-O's own habits: what a restart forgets, and a creation that fails late."""

from dataclasses import replace
from typing import Any

from tests.e2e.guest.scenarios_placement import LARGE, MEDIUM, SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import SLEEP, ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_GROWING = PodSpec("growing", (ContainerSpec("main", SMALL),))
_BROKEN = ContainerSpec("main", MEDIUM, command=("/no-such-program",))


def _restart_keeps_a_grown_container(host: Host) -> str:
    """Resize a container to two nodes, and restart CRI-O.

    CRI-O then shows the nodes and the memory limit of the container's creation, while its cgroup
    has those of the resize.
    """
    pod = host.kubelet.run(_GROWING)
    (first,) = _nodes(pod)
    host.kubelet.resize_memory(pod, "main", LARGE)
    grown = wait_until(lambda: _nodes(pod) - {first} and _nodes(pod), "a second node")
    before, accounting = host.running(), host.plugin.accounting()
    host.restart_runtime(killed=True)
    after = host.plugin.accounting()
    expect(_nodes(pod) == grown, f"from {sorted(grown)} to {sorted(_nodes(pod))}")
    expect(host.running() == before, f"from {before} to {host.running()}")
    expect(after == accounting, f"from {accounting} to {after}")
    limit = cgroups.read(pod.parent, pod.container_ids["main"], "memory.max")
    expect(limit == str(LARGE), f"memory.max is {limit}")
    return f"created on {first}, grown to {sorted(grown)}"


def _failed_creation_is_superseded(host: Host) -> str:
    """Let crun fail after the plugin has placed the container; CRI-O reports no end of it."""
    pod = host.kubelet.run_sandbox(PodSpec("broken", (_BROKEN,)))
    texts = [_fail_to_create(host, pod) for _ in range(2)]
    pod.spec = PodSpec("broken", (replace(_BROKEN, command=SLEEP),))
    host.kubelet.run_container(pod, "main")
    (node,) = _nodes(pod)
    blocks = _entries(host)[pod.uid]
    expected = {"main": [{"numaAffinity": [node], "type": "memory", "size": MEDIUM}]}
    expect(blocks == expected, f"the accounting has {blocks}, not {expected}")
    return f"node {node}, after {texts}"


def _failed_creation_is_released_with_its_pod(host: Host) -> str:
    pod = host.kubelet.run_sandbox(PodSpec("never", (_BROKEN,)))
    text = _fail_to_create(host, pod)
    host.kubelet.remove(pod)
    wait_until(lambda: pod.uid not in _entries(host), "release of the pod in the accounting")
    return text


def _fail_to_create(host: Host, pod: Pod) -> str:
    """Create a container without a program; return the text of the error, which is crun's."""
    try:
        host.kubelet.create_container(pod, "main")
    except CriError as error:
        text = str(error)
        expect("numamem" not in text, f"the plugin rejected it: {text}")
        return text
    raise AssertionError("crun has created a container without a program")


def _nodes(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


def _entries(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = host.plugin.accounting()["entries"]
    return found


CRIO = (
    Check("restart_keeps_a_grown_container", _restart_keeps_a_grown_container),
    Check("failed_creation_is_superseded", _failed_creation_is_superseded),
    Check("failed_creation_is_released_with_its_pod", _failed_creation_is_released_with_its_pod),
)
