"""The hosts of the pictures: files of a machine, with what a real engine decided on it."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nri_numamem.engine.core.events import Container, CreateContainer
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.history.writer import HistoryWriter
from nri_numamem.version import VERSION
from tests.cli.doctor.host_files import KUBELET, STATE, HostFiles
from tests.cli.live.live_host import CHANGED_S, GI, LiveHost, four_nodes
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

NOW_S = CHANGED_S + 60
REFUSED = "telco/upf-8d"
_RESERVED = "reservedMemory:\n" + "".join(
    f"- {{numaNode: {node}, limits: {{memory: 2Gi}}}}\n" for node in range(4)
)


@contextmanager
def busy_host(root: Path) -> Iterator[LiveHost]:
    """Yield a host with a running plugin and three pods, which refused a fourth one."""
    host = LiveHost(root, four_nodes(), _RESERVED)
    _start(host, "db/postgres-0", "postgres", 40, {0: 30 * GI})
    _start(host, "telco/upf-7c", "dpdk", 24, {1: 6 * GI}, pages=2)
    _start(host, "ml/train-3", "worker", 90, {2: 50 * GI, 3: 8 * GI})
    _refuse(host, REFUSED, "dpdk", 40)
    host.save()
    host.describe(version=VERSION)
    with host.running():
        yield host


def _start(
    host: LiveHost, name: str, container: str, size: int, used: Mapping[int, int], pages: int = 0
) -> None:
    """Run a pod with one container of `size` GiB, of which it uses some on each node."""
    namespace, _, uid = name.partition("/")
    pod = replace(host.sandbox(uid, size * GI), namespace=namespace, name=uid)
    created, plan = host.create(pod, container, size * GI, pages)
    assert plan.adjustment is not None
    host.write_cgroup(uid, created.container_id, plan.adjustment.cpuset_mems, size * GI)
    host.use(uid, created.container_id, used)


def _refuse(host: LiveHost, name: str, container: str, size: int) -> None:
    """Create a container that fits nowhere, and write its records to the history."""
    namespace, _, uid = name.partition("/")
    pod = replace(host.sandbox(uid, size * GI), namespace=namespace, name=uid)
    (host.directory(uid) / "memory.max").write_text(f"{size * GI}\n")
    refused = Container(host.new_id(), pod.sandbox_id, container, size * GI)
    applied = host.engine.apply(CreateContainer(pod, refused), CHANGED_S)
    assert applied.rejection is not None
    writer = HistoryWriter(host.state_file, lambda _record: None)
    for record in applied.records:
        writer.append(CHANGED_S, replace(record, request_id="1-14"))
    writer.write()


def write_machine_with_cxl(root: Path) -> None:
    """Write the files of a machine with two sockets and two NUMA nodes of CXL memory."""
    distances = ((10, 21, 14, 24), (21, 10, 24, 14), (14, 24, 10, 26), (24, 14, 26, 10))
    nodes = tuple(
        NumaNode(
            node,
            (64 if node < 2 else 128) * GI,
            {GI: 4} if node < 2 else {},
            CpuSet(range(16 * node, 16 * node + 16)) if node < 2 else CpuSet(),
            dict(enumerate(row)),
            is_movable_only=node == 3,
            memory_tier=4 if node < 2 else 22,
        )
        for node, row in enumerate(distances)
    )
    write_overlay(overlay_of(Machine(nodes)), root)


@contextmanager
def misconfigured_host(root: Path) -> Iterator[HostFiles]:
    """Yield a host with a running plugin whose kubelet has its own Memory Manager on."""
    host = HostFiles(root)
    host.write(KUBELET, "kind: KubeletConfiguration\nmemoryManagerPolicy: Static\n")
    os.utime(host.path(STATE), (CHANGED_S, CHANGED_S))
    with host.path(str(lock_file_of(Path(STATE)))).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("pid 2114, since 2026-09-21T14:12:00Z, launched by containerd\n")
        lock.flush()
        yield host
