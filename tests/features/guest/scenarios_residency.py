"""Scenarios of where pages are: the command, memory that does not move back, and head-room.

Each interval of the job lasts 2 s, so that an alarm needs few seconds.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.features.guest import memory
from tests.features.guest.feature import Phase
from tests.features.guest.memory import MIB
from tests.machines.guest import cgroups, node_memory
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.processes import first_victim, output, unprotected
from tests.machines.guest.waiting import wait_until

_LIMIT_MIB, _WRITTEN_MIB = 300, 64
_HEAD_ROOM_MIB = 64
_FILE_MIB = 32
_EATER_SPARE_MIB = 32  # for its programs
# Pages of a program's start, and counters that the kernel updates in batches.
_NOISE_BYTES = 2 * MIB
_FILE = Path("/dev/shm/residency")
_EATER = Path("/sys/fs/cgroup/residency-eater")
SETTINGS = f"residency: {{intervalSeconds: 2, headRoom: {_HEAD_ROOM_MIB}Mi}}\n"


def _command_shows_the_node(host: Host) -> str:
    container = ContainerSpec("main", _LIMIT_MIB * MIB, command=memory.writer(_WRITTEN_MIB))
    pod = host.kubelet.run(PodSpec("db", (container,)))
    memory.wait_for_written(pod, _WRITTEN_MIB)
    (node,) = host.nodes(pod)

    def assigned() -> Mapping[str, Any] | None:
        # The state file is written up to a second after the reply.
        (found,) = _pages(host, "e2e/db")["containers"]
        return found if found["assigned"] else None

    found = wait_until(assigned, "an assignment of e2e/db in the state")
    expect((found["container"], found["nodes"]) == ("main", [node]), f"{found}")
    mib = {each["node"]: each["anonymous"] / MIB for each in found["pages"]}
    expect(mib[node] >= _WRITTEN_MIB, f"anonymous MiB: {mib}")
    expect(found["remoteBytes"] < _NOISE_BYTES, f"{found}")
    screen = host.plugin.command("status", "--pages").stdout
    expect("e2e/db/main" in screen, screen)
    return f"node {node}, anonymous MiB: {mib}"


def _command_shows_other_pods(host: Host) -> str:
    container = ContainerSpec("main", 128 * MIB, command=memory.writer(16))
    pod = host.kubelet.run(PodSpec("web", (container,), "burstable"))
    memory.wait_for_written(pod, 16)
    rows = {each["containerId"]: each for each in _pages(host, "web")["containers"]}
    found = rows[pod.container_ids["main"]]
    expect((found["pod"], found["assigned"], found["nodes"]) == ("e2e/web", False, []), f"{found}")
    written = sum(each["anonymous"] for each in found["pages"])
    expect(written >= 16 * MIB, f"{found}")
    return f"{written // MIB} MiB, effective nodes {found['effectiveMems']}"


def _record_says_where_pages_are(host: Host) -> str:
    """Move the pages to another node, unset `cpuset.mems`, and let a reply set it again."""
    pod = host.kubelet.pod("db")
    node, other = _nodes(pod)
    seen = len(host.plugin.records("cpuset_mems_missing"))
    _move(pod, other)
    _write_mems(pod, "")
    missing = wait_until(
        lambda: host.plugin.records("cpuset_mems_missing")[seen:], "a record of cpuset.mems"
    )[-1]
    expect(missing["outcome"] == "repair_deferred", f"{missing}")
    remote = missing["remote_bytes"][str(other)]
    expect(remote >= _WRITTEN_MIB * MIB, f"{missing}")
    host.kubelet.run(PodSpec("next", (ContainerSpec("main", 32 * MIB),)))
    restored = wait_until(
        lambda: host.plugin.records("cpuset_mems_restored"), "a record after the repair"
    )[-1]
    expect(restored["nodes"] == str(node), f"{restored}")
    _wait_until_moved(pod, node)
    screen = " ".join(host.plugin.command("explain", "e2e/db").stdout.split())
    expect("cpuset mems restored" in screen, screen)
    return f"{missing['remote_bytes']} remote, then {restored['resident_bytes']}"


def _files_of_tmpfs_stay_behind(host: Host) -> str:
    """Write a file while a container with little other memory is on another node for a moment."""
    pod = host.kubelet.run(PodSpec("files", (ContainerSpec("main", 128 * MIB),)))
    node, other = _nodes(pod)
    procs = cgroups.container(pod.parent, pod.container_ids["main"]) / "cgroup.procs"
    script = f"echo $$ > {procs} && dd if=/dev/zero of={_FILE} bs={MIB} count={_FILE_MIB}"
    _write_mems(pod, str(other))
    output(*unprotected("/bin/sh", "-c", script))
    _write_mems(pod, str(node))

    def of_pod(event: str) -> list[dict[str, Any]]:
        return [each for each in host.plugin.records(event) if each["pod"] == "files"]

    found = wait_until(lambda: of_pod("remote_memory_found"), "a record of remote memory")[-1]
    expect(found["remote_bytes"][str(other)] >= _FILE_MIB * MIB, f"{found}")
    expect("files of tmpfs that no process maps do not move" in found["cause"], f"{found}")
    (row,) = _pages(host, "e2e/files")["containers"]
    shared = {each["node"]: each["shared"] // MIB for each in row["pages"]}
    expect(shared[other] == _FILE_MIB, f"{row}")
    _FILE.unlink()
    wait_until(lambda: of_pod("remote_memory_cleared"), "the end of the alarm")
    host.kubelet.remove(pod)
    return f"{found['remote_bytes']}: {found['cause']}"


def _head_room_alarm_comes_and_goes(host: Host) -> str:
    pod = host.kubelet.pod("db")
    node, _ = _nodes(pod)
    amounts = {each["id"]: each for each in _pages(host)["nodes"]}[node]
    spare = (amounts["availableBytes"] - amounts["unfaultedBytes"]) // MIB
    expect(spare > _HEAD_ROOM_MIB, f"{amounts}")
    before = len(host.plugin.records("head_room_low"))
    with _eaten(node, spare - _HEAD_ROOM_MIB // 2):
        low = wait_until(
            lambda: host.plugin.records("head_room_low")[before:], f"a record; before: {amounts}"
        )
        expect([each["nodes"] for each in low] == [str(node)], f"{low}")
        expect(low[0]["head_room_bytes"] < _HEAD_ROOM_MIB * MIB, f"{low}")
    restored = wait_until(lambda: host.plugin.records("head_room_restored"), "the end of the alarm")
    expect(restored[-1]["nodes"] == str(node), f"{restored}")
    expect(len(host.plugin.records("head_room_low")) == before + 1, "it was raised twice")
    figures = {name: low[0][name] // MIB for name in ("available_bytes", "unfaulted_bytes")}
    return f"node {node}, MiB: {figures}"


def _pages(host: Host, *pod: str) -> dict[str, Any]:
    done = host.plugin.command("status", "--pages", *pod, "--output", "json")
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr}{done.stdout}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _nodes(pod: Pod) -> tuple[int, int]:
    """Return the node of a pod's container, and another one with a processor."""
    (node,) = cgroups.nodes(pod.parent, pod.container_ids["main"])
    return node, (node + 1) % 4


def _move(pod: Pod, node: int) -> None:
    _write_mems(pod, str(node))
    _wait_until_moved(pod, node)


def _wait_until_moved(pod: Pod, node: int) -> None:
    """Wait until `memory.numa_stat`, which lags behind a move, shows the pages on a node."""

    def is_moved() -> bool:
        return memory.numa_stat(pod)["anon"].get(node, 0) >= _WRITTEN_MIB * MIB

    wait_until(is_moved, f"memory on node {node}")


def _write_mems(pod: Pod, mems: str) -> None:
    path = cgroups.container(pod.parent, pod.container_ids["main"]) / "cpuset.mems"
    path.write_text(f"{mems}\n", encoding="ascii")


@contextlib.contextmanager
def _eaten(node: int, mib: int) -> Iterator[None]:
    """Let a process outside of pods have this much memory of a node, and no more."""
    _EATER.mkdir(exist_ok=True)
    for name, value in (("cpuset.mems", node), ("memory.max", (mib + _EATER_SPARE_MIB) * MIB)):
        (_EATER / name).write_text(f"{value}\n", encoding="ascii")
    script = f"echo $$ > {_EATER}/cgroup.procs && exec busybox sh -c '{memory.writer(mib)[-1]}'"
    writable = f"{node_memory.writable_mib(node)} MiB could be written before"
    with first_victim(script):
        wait_until(_has(mib), f"{mib} MiB on node {node}; {writable}")
        yield
    wait_until(lambda: "populated 0" in (_EATER / "cgroup.events").read_text(), "its end")
    _EATER.rmdir()


def _has(mib: int) -> Callable[[], bool]:
    current = _EATER / "memory.current"
    return lambda: int(current.read_text(encoding="ascii")) >= mib * MIB


_CHECKS = (
    Check("command_shows_the_node", _command_shows_the_node),
    Check("command_shows_other_pods", _command_shows_other_pods),
    Check("record_says_where_pages_are", _record_says_where_pages_are),
    Check("files_of_tmpfs_stay_behind", _files_of_tmpfs_stay_behind),
    Check("head_room_alarm_comes_and_goes", _head_room_alarm_comes_and_goes),
)

PHASES = (Phase(name="residency", scenarios=(_CHECKS,), settings=SETTINGS),)
