"""Scenario of a container that is being started while the plugin connects.

The shim of a pod is stopped, so that StartContainer waits for it. Meanwhile the plugin connects. A
containerd without a lock around Synchronize stores the plugin's update, and then makes the task
from the older specification: the cgroup has no `cpuset.mems`. The plugin finds that, and sends the
nodes again with a later reply. "other" gives it these replies.
"""

import os
import signal
import threading
import time
from pathlib import Path

from tests.e2e.guest.scenarios_placement import SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

# After the configuration; a runtime without a lock then synchronizes the plugin at once.
_STOPPED_S = 9.0
# The plugin compares all cgroups 5 and 30 s after a Synchronize, and each within five minutes.
_REPAIR_S = 400.0
_POLL_S = 2.0
_SHIM = b"containerd-shim-runc-v2"

_OTHER = PodSpec("other", (ContainerSpec("main", SMALL),))
_STARTING = PodSpec("starting", (ContainerSpec("main", SMALL),))


def _started_while_connecting(host: Host) -> str:
    host.plugin.wait_for_empty_accounting()
    host.kubelet.run(_OTHER)
    pod = host.kubelet.run_sandbox(_STARTING)
    errors: list[Exception] = []
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.crash()
        container_id = host.kubelet.create_container(pod, "main")
        shim = _shim_of(pod)
        configured = len(host.plugin.records("configured"))
        started = threading.Thread(target=_start, args=(host, container_id, errors))
        os.kill(shim, signal.SIGSTOP)
        try:
            started.start()
            host.plugin.restart()
            text = "configuration of the plugin"
            wait_until(lambda: len(host.plugin.records("configured")) > configured, text)
            time.sleep(_STOPPED_S)
        finally:
            os.kill(shim, signal.SIGCONT)
        started.join()
        host.runtime.wait_for_plugin(launched=False)
    expect(not errors, f"StartContainer failed: {errors}")
    return f"the shim {shim} ran on {_STOPPED_S:.0f} s after the plugin was configured"


def _its_cgroup_has_the_assigned_nodes(host: Host) -> str:
    pod, other = host.kubelet.pod("starting"), host.kubelet.pod("other")
    before = _mems(pod)
    milli = 1000
    deadline = time.monotonic() + _REPAIR_S
    assigned = wait_until(lambda: _assigned(host, pod), "the container in the state")
    while _mems(pod) != assigned and time.monotonic() < deadline:
        milli = 2100 - milli  # its reply can carry the update
        host.kubelet.resize_cpu(other, "main", milli)
        time.sleep(_POLL_S)
    after = _mems(pod)
    expect(after == assigned, f"cpuset.mems is {sorted(after)}, by the state {sorted(assigned)}")
    repairs = [record["cause"] for record in host.plugin.records("cpuset_mems_reapplied")]
    expect(before or repairs, "the cgroup had no nodes, and no repair is recorded")
    return f"first {sorted(before)}, then {sorted(after)}; repairs: {repairs}"


def _start(host: Host, container_id: str, errors: list[Exception]) -> None:
    try:
        host.kubelet.client.start_container(container_id)
    except Exception as error:  # noqa: BLE001 - the check shows it
        errors.append(error)


def _shim_of(pod: Pod) -> int:
    """Return the process id of a pod's shim."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
        except OSError:  # the process has exited
            continue
        if arguments[0].endswith(_SHIM) and pod.sandbox_id.encode() in arguments:
            return int(entry.parent.name)
    raise LookupError(f"there is no shim of {pod.sandbox_id}")


def _mems(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


def _assigned(host: Host, pod: Pod) -> frozenset[int]:
    blocks = host.plugin.accounting()["entries"].get(pod.uid, {}).get("main", [])
    return frozenset(blocks[0]["numaAffinity"]) if blocks else frozenset()


_EXTERNAL = ("external",)  # a launched plugin connects in the same way after its first crash

STARTING = (
    Check("container_starts_while_the_plugin_connects", _started_while_connecting, _EXTERNAL),
    Check("its_cgroup_has_the_assigned_nodes", _its_cgroup_has_the_assigned_nodes, _EXTERNAL),
)
