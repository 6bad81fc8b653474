"""Scenarios of rebalancing plans: a refused pod, its plan, and the plan carried out by hand.

The machine has four NUMA nodes with CPUs, 0 to 3. Node 0 is empty, and a small pod on node 1 keeps
these two from being a group for a pod that needs both.
"""

import json
from typing import Any

from tests.features.guest import memory, nodes
from tests.features.guest.feature import Phase
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import SLEEP, ContainerSpec, PodSpec
from tests.machines.guest.waiting import wait_until

_CONSENT = {"movable.numamem.io": "true"}
_SMALL_MIB = 16
_LAST_MIB = 64
_FILLER = "filler"
# Shares of the smallest node in percent. Filler and neighbour end when the others run.
_PODS = {_FILLER: 90, "small": 20, "neighbour": 75, "large": 90, "last": 50}
_WRITTEN_MIB = {"small": _SMALL_MIB, "last": _LAST_MIB}


def spec_of(host: Host, name: str, percent: int, *, is_movable: bool = False) -> PodSpec:
    """Return a pod with a share of the smallest node, in percent."""
    sizes = nodes.allocatable_bytes(host)
    size = min(sizes) * percent // 100
    if name == _FILLER:  # too little is left for the small pod, however large node 0 is
        size += sizes[0] - min(sizes)
    written = _WRITTEN_MIB.get(name)
    command = SLEEP if written is None else memory.writer(written)
    container = ContainerSpec("main", size, command=command)
    return PodSpec(name, (container,), annotations=_CONSENT if is_movable else {})


def _plan_of(host: Host, name: str) -> dict[str, Any]:
    """Return the plan that explain shows."""

    def found() -> dict[str, Any] | None:
        done = host.plugin.command("explain", name, "--output", "json")
        if done.returncode:
            return None
        (container,) = json.loads(done.stdout)["containers"]
        plan: dict[str, Any] | None = container["plan"]
        return plan

    return wait_until(found, f"a plan for {name}")


def _leave_room_for_a_plan(host: Host) -> None:
    """Run the pods, and end those that have to go."""
    for name, percent in _PODS.items():
        pod = host.kubelet.run(spec_of(host, name, percent, is_movable=name == "small"))
        if name in _WRITTEN_MIB:
            memory.wait_for_written(pod, _WRITTEN_MIB[name])
    placed = {name: sorted(host.nodes(host.kubelet.pod(name))) for name in ("small", "last")}
    expect(placed == {"small": [1], "last": [3]}, f"{placed}")
    for name in (_FILLER, "neighbour"):
        host.kubelet.remove(host.kubelet.pod(name))


def refuse_with_a_plan(host: Host) -> dict[str, Any]:
    """Refuse a pod, big, that needs nodes 0 and 1; return its plan."""
    _leave_room_for_a_plan(host)
    pod = host.kubelet.run_sandbox(spec_of(host, "big", 150))
    try:
        host.kubelet.create_container(pod, "main")
    except CriError as error:
        expect("needs 2 NUMA nodes" in str(error), f"{error}")
    else:
        raise AssertionError("it was not refused")
    return _plan_of(host, "e2e/big")


def _refused_pod_gets_a_plan(host: Host) -> str:
    plan = refuse_with_a_plan(host)
    moves = [(each["pod"], each["from"], each["to"], each["consented"]) for each in plan["moves"]]
    expect(moves == [("small", 1, 3, True)], f"{plan}")
    expect(plan["nodes"] == [0, 1], f"{plan}")
    resident = plan["moveBytes"] >> 20
    expect(_SMALL_MIB <= resident < _LAST_MIB, f"{plan}")
    screen = " ".join(host.plugin.command("explain", "e2e/big").stdout.split())
    expect("would fit on nodes 0-1 if e2e/small moved from node 1 to node 3" in screen, screen)
    return str(plan["text"])


def _nothing_has_moved(host: Host) -> str:
    pod = host.kubelet.pod("small")
    expect(host.nodes(pod) == {1}, f"{host.nodes(pod)}")
    return f"{memory.wait_for_written(pod, _SMALL_MIB)}"


def _the_plan_holds_when_pods_are_restarted(host: Host) -> str:
    small, big = host.kubelet.pod("small"), host.kubelet.pod("big")
    host.kubelet.remove(small)
    plan = _plan_of(host, "e2e/big")
    expect(plan["fitsNow"], f"{plan}")
    host.kubelet.run_container(big, "main")
    expect(host.nodes(big) == {0, 1}, f"{host.nodes(big)}")
    again = host.kubelet.run(small.spec)
    expect(host.nodes(again) == {3}, f"{host.nodes(again)}")
    return f"{plan['text']}; small has {memory.wait_for_written(again, _SMALL_MIB)}"


_CHECKS = (
    Check("refused_pod_gets_a_plan", _refused_pod_gets_a_plan),
    Check("nothing_has_moved", _nothing_has_moved),
    Check("the_plan_holds_when_pods_are_restarted", _the_plan_holds_when_pods_are_restarted),
)

PHASES = (Phase(name="rebalancing", scenarios=(_CHECKS,)),)
