"""Checks of crashes and restarts under running pods: container, kubelet, containerd, plugin."""

import signal
from collections.abc import Callable
from functools import partial

from tests.cluster.guest.host import (
    Host,
    container_id,
    container_status,
    is_running,
    kill_processes,
)
from tests.cluster.guest.manifests import (
    WRITE,
    Manifest,
    container,
    guaranteed,
    pod,
    resources,
    sidecar,
)
from tests.cluster.guest.scenarios_placement import one_node
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

_KILLED = 128 + signal.SIGKILL


def crash(host: Host, name: str) -> Manifest:
    """Kill the container "main" of a pod, and wait until the kubelet has started it again."""
    before = container_id(host.pod(name), "main")
    kill_processes(host.pod(name), "main")

    def restarted() -> Manifest | None:
        found = (host.pods.found() or {}).get(name)
        if found is None or not is_running(found) or container_id(found, "main") == before:
            return None
        return found

    return wait_until(restarted, f"restart of {name}/main")


def _crashed_container_returns_to_its_node(host: Host) -> str:
    """Free the preferred node before the crash; a new pod would be placed there."""
    host.run(guaranteed("filler", 760))
    host.run(guaranteed("crash", 300))
    filler, before = one_node(host, "filler"), one_node(host, "crash")
    expect(filler != before, f"both are on {sorted(before)}")
    assignments = host.assignments("crash")
    host.remove("filler")
    found = container_status(crash(host, "crash"), "main")
    expect(found["restartCount"] == 1, str(found))
    expect(found["lastState"]["terminated"]["exitCode"] == _KILLED, str(found))
    after = one_node(host, "crash")
    expect(before == after, f"from {sorted(before)} to {sorted(after)}")
    expect(host.assignments("crash") == assignments, f"{assignments}, then {after}")
    return f"node {sorted(after)}; node {sorted(filler)} was free"


def _start_pods(host: Host) -> str:
    """Start the pods that the next checks compare."""
    init = [sidecar("sidecar", resources(100))]
    host.run(guaranteed("small", 200, WRITE))
    host.run(guaranteed("large", 1229))
    host.run(pod("huge", [container("main", resources(100, hugepages_mib=8))]))
    host.run(pod("side", [container("main", resources(150))], init))
    host.run(pod("besteffort", [container("main")]))
    running, _ = host.take_snapshot()
    expect(len(running) == 6, f"{running}")
    return f"{len(running)} containers"


def _keeps_all(restart: Callable[[Host], None], host: Host) -> str:
    """Restart a service; containers, cgroups and accounting must stay as they are."""
    restart(host)
    return f"{host.expect_snapshot()} containers"


def _new_pod_is_placed(host: Host) -> str:
    """After all restarts the kubelet starts a pod, and the plugin places it."""
    host.run(guaranteed("last", 100))
    return f"node {sorted(one_node(host, 'last'))}"


def _restart(name: str, restart: Callable[..., None], *, killed: bool) -> Check[Host]:
    run = partial(_keeps_all, partial(restart, killed=killed))
    return Check(f"{'sigkill' if killed else 'restart'}_of_{name}_changes_nothing", run)


CRASH = (Check("crashed_container_returns_to_its_node", _crashed_container_returns_to_its_node),)
RESTARTS = (
    Check("pods_of_all_kinds_run", _start_pods),
    _restart("kubelet", Host.restart_kubelet, killed=False),
    _restart("kubelet", Host.restart_kubelet, killed=True),
    _restart("containerd", Host.restart_runtime, killed=False),
    _restart("containerd", Host.restart_runtime, killed=True),
    _restart("plugin", Host.restart_plugin, killed=False),
    _restart("plugin", Host.restart_plugin, killed=True),
    Check("new_pod_is_placed", _new_pod_is_placed),
)
