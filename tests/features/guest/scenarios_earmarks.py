"""Scenarios of earmarks: the plan of the phase rebalancing, carried out while other pods start.

Node 0 is empty, and a small pod on node 1 keeps these two from being a group for a pod that needs
both. The room of both nodes is set aside for it.
"""

import json
from typing import Any

from tests.features.guest import memory, nodes
from tests.features.guest.feature import Phase
from tests.features.guest.scenarios_rebalancing import refuse_with_a_plan, spec_of
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.waiting import wait_until

_SETTINGS = "earmarks: {enabled: true, maxPercent: 60}\n"
_SMALL_MIB = 16
_UID = "for-big"


def _earmarks(host: Host) -> list[dict[str, Any]]:
    done = host.plugin.command("earmark", "list", "--output", "json")
    found: list[dict[str, Any]] = json.loads(done.stdout)["earmarks"]
    return found


def _refusal(host: Host) -> str:
    """Return why a pod is refused that would fit on node 0, and on no other node."""
    sizes = nodes.allocatable_bytes(host)
    left_bytes = sizes[3] - min(sizes) // 2
    pod = host.kubelet.run_sandbox(spec_of(host, "thief", 100 * left_bytes // min(sizes) + 5))
    try:
        host.kubelet.create_container(pod, "main")
    except CriError as error:
        return str(error)
    finally:
        host.kubelet.remove(pod)
    raise AssertionError(f"a pod of more than {left_bytes} bytes was not refused")


def _room_of_a_plan_is_set_aside(host: Host) -> str:
    plan = refuse_with_a_plan(host)
    expect(plan["nodes"] == [0, 1], f"{plan}")
    done = host.plugin.command("earmark", "make", "e2e/big", "--uid", _UID, "--minutes", "60")
    expect(done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}")
    expect("on nodes 0-1 set aside for e2e/big until" in done.stdout, done.stdout)
    return done.stdout.splitlines()[0]


def _no_other_pod_gets_the_room(host: Host) -> str:
    text = _refusal(host)
    expect("on nodes 0-1 is set aside for other pods" in text, text)
    small = host.kubelet.pod("small")
    host.kubelet.remove(small)
    again = host.kubelet.run(small.spec)
    expect(host.nodes(again) == {3}, f"the replacement is on {sorted(host.nodes(again))}")
    return f"{text[-300:]}; small is on node 3"


def _restarts_keep_the_earmark(host: Host) -> str:
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.crash()
        host.plugin.restart()
        host.runtime.wait_for_plugin(launched=False)
    expect("is set aside for other pods" in _refusal(host), "after SIGKILL")
    host.restart_runtime(killed=True)
    expect("is set aside for other pods" in _refusal(host), "after the runtime's end")
    (found,) = _earmarks(host)
    return f"{found}"


def _the_pod_gets_the_room(host: Host) -> str:
    big = host.kubelet.pod("big")
    host.kubelet.run_container(big, "main")
    expect(host.nodes(big) == {0, 1}, f"{host.nodes(big)}")

    def used() -> list[dict[str, Any]] | None:
        found = _earmarks(host)
        return found if not found[0]["leftBytes"] else None

    (found,) = wait_until(used, "the use of the earmark")
    done = host.plugin.command("earmark", "drop", _UID)
    expect(done.stdout == f"{_UID} ended\n", f"{done.stdout}{done.stderr}")
    expect(host.plugin.records("earmark_ended"), "the end has no record")
    small = memory.wait_for_written(host.kubelet.pod("small"), _SMALL_MIB)
    return f"set aside {found['bytes']}, on nodes 0-1; small has {small}"


_CHECKS = (
    Check("room_of_a_plan_is_set_aside", _room_of_a_plan_is_set_aside),
    Check("no_other_pod_gets_the_room", _no_other_pod_gets_the_room),
    Check("restarts_keep_the_earmark", _restarts_keep_the_earmark),
    Check("the_pod_gets_the_room", _the_pod_gets_the_room),
)

PHASES = (Phase(name="earmarks", scenarios=(_CHECKS,), settings=_SETTINGS),)
