"""Checks of claims when a part ends by SIGKILL in a step of a pod's start, and of a reboot.

A reboot is simulated: all processes of pods and services are killed, what was in /run is deleted,
and the kernel's boot id is another one. The machine itself goes on, because it runs the checks.
"""

import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.cluster.guest import claim_pods
from tests.cluster.guest.claim_pods import (
    agent_of,
    allocated,
    claim_of,
    create_template,
    expect_pinned,
)
from tests.cluster.guest.host import Host, container_cgroups
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.processes import output
from tests.machines.guest.waiting import wait_until

_SIZE_MIB = 300
_SANDBOX_AND_CONTAINER = 2
_POLL_S = 0.005
_STEP_S = 200.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NEW_BOOT_ID = Path("/tmp/boot_id")
_OF_A_BOOT = tuple(map(Path, ("/run/containerd", "/run/cdi")))


def _intent_is_written(_host: Host, _uid: str) -> bool:
    return bool(claim_pods.intents())


def _is_prepared(_host: Host, _uid: str) -> bool:
    return bool(claim_pods.specifications())


def _container_is_created(_host: Host, uid: str) -> bool:
    return len(container_cgroups(uid)) >= _SANDBOX_AND_CONTAINER


_STEPS: Mapping[str, Callable[[Host, str], bool]] = {
    "intent written": _intent_is_written,
    "claim prepared": _is_prepared,
    "container created": _container_is_created,
}


def _start_survives(part: str, kill: Callable[[Host], None], host: Host) -> str:
    """Start a pod for each step, and kill a part in that step."""
    pod = create_template(host, part, f"{_SIZE_MIB}Mi")
    found = []
    for name, is_reached in _STEPS.items():
        host.pods.put(pod)
        uid = host.pod(part)["metadata"]["uid"]
        _wait_for_step(name, partial(is_reached, host, uid))
        began_s = time.monotonic()
        kill(host)
        host.wait_for_running(part)
        took_s = time.monotonic() - began_s
        nodes = set(allocated(claim_of(host, part)).values())
        expect_pinned(host, part, part, nodes, _SIZE_MIB)
        (charged,) = claim_pods.status(host).values()
        expect(set(charged["nodes"]) == nodes, f"{charged}")
        claim_pods.remove(host, part)
        found.append(f"{name}: running after {took_s:.0f} s")
    return "; ".join(found)


def _wait_for_step(name: str, is_reached: Callable[[], bool]) -> None:
    """Wait with short pauses, because a step may take less than a tenth of a second."""
    deadline = time.monotonic() + _STEP_S
    while not is_reached():
        expect(time.monotonic() < deadline, f"{name}: not within {_STEP_S:.0f} s")
        time.sleep(_POLL_S)


def _kill_agent(host: Host) -> None:
    agent_of(host).kill()


def _kill_plugin(host: Host) -> None:
    host.restart_plugin(killed=True)


def _kill_kubelet(host: Host) -> None:
    host.restart_kubelet(killed=True)


def _kill_runtime(host: Host) -> None:
    host.restart_runtime(killed=True)


def _pods_return_after_a_reboot(host: Host) -> str:
    """Compare allocation, cgroups and accounting of pods with claims before and after a reboot."""
    names = ("one", "two")
    for name in names:
        host.run(create_template(host, name, f"{_SIZE_MIB}Mi"))
    nodes = {name: set(allocated(claim_of(host, name)).values()) for name in names}
    before = host.plugin.accounting()
    _reboot(host)
    for name in names:
        host.wait_for_running(name)
    found = [expect_pinned(host, name, name, nodes[name], _SIZE_MIB) for name in names]
    wait_until(lambda: host.plugin.accounting() == before, "the accounting of before")
    claim_pods.remove(host, *names)
    return "; ".join(found)


def _reboot(host: Host) -> None:
    """Stop everything, delete what a reboot deletes, and start the services as a boot does."""
    agent_of(host).stop()
    host.kubelet.kill()
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.crash()
        host.runtime.kill()
        _end_all_pods()
        for place in _mounts():
            output("umount", place)
        for path in _OF_A_BOOT:
            shutil.rmtree(path, ignore_errors=True)
            expect(not path.exists(), f"{path} cannot be deleted")
        _NEW_BOOT_ID.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        output("mount", "--bind", str(_NEW_BOOT_ID), str(_BOOT_ID))
        host.runtime.start().close()
        host.plugin.restart()
        host.runtime.wait_for_plugin(launched=False)
    host.kubelet.start()
    agent_of(host).restart()


def _end_all_pods() -> None:
    """Kill the containers and the shims of containerd, and remove the cgroups of pods."""
    for status in Path("/proc").glob("[0-9]*/comm"):
        if status.read_text(encoding="utf-8", errors="replace").startswith("containerd-shim"):
            os.kill(int(status.parent.name), signal.SIGKILL)
    tops = [path for path in cgroups.ROOT.glob("kubepods*") if path.is_dir()]
    for top in tops:
        (top / "cgroup.kill").write_text("1", encoding="ascii")
        wait_until(partial(_is_removed, top), f"removal of {top}")


def _mounts() -> list[str]:
    """Return the mount points below the directories of a boot, innermost first."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    found = [line.split()[1] for line in lines]
    return [path for path in reversed(found) if Path(path).is_relative_to(_OF_A_BOOT[0])]


def _is_removed(top: Path) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            Path(folder).rmdir()
        except OSError:  # a process has not ended yet
            return False
    return True


FAULTS = (
    Check("start_survives_sigkill_of_the_agent", partial(_start_survives, "agent", _kill_agent)),
    Check("start_survives_sigkill_of_the_plugin", partial(_start_survives, "plugin", _kill_plugin)),
    Check(
        "start_survives_sigkill_of_the_kubelet", partial(_start_survives, "kubelet", _kill_kubelet)
    ),
    Check(
        "start_survives_sigkill_of_the_runtime", partial(_start_survives, "runtime", _kill_runtime)
    ),
)
REBOOT = (Check("pods_return_after_a_reboot", _pods_return_after_a_reboot),)
