"""The machine behind a running plugin: what its kernel has counts, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon import machine_monitor
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.system import host_system
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, RunPodSandbox
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.log import loggers as logs
from tests.laboratory import objects
from tests.laboratory.fake_sysfs import overlay_of, write_overlay
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import SimulatedHost

GI = 1 << 30
MI = 1 << 20
PAGE = 2 * MI
PAGES = "hugepages-2Mi"


def in_use(root: Path, node: int, pages: int) -> None:
    """Let pages of the simulated host be used; each node has 64."""
    pool = f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
    # Replaced as a whole: a running plugin may read it at any time.
    changed = root / "free_hugepages"
    changed.write_text(f"{64 - pages}\n")
    changed.replace(root / pool / "free_hugepages")


def test_pages_that_the_kernel_does_not_have_are_not_assigned(
    simulated_host: SimulatedHost,
) -> None:
    in_use(simulated_host.root, 0, 60)
    with FakeRuntime(hide_hugepage_limits=False) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        pages = {PAGE: 32 * PAGE}
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "server", memory_limit_bytes=GI, hugepages=pages)
        created = runtime.create_container(pod, container)
        assert created.linux.resources.cpu.mems == "1"
        in_use(simulated_host.root, 1, 64)
        other = runtime.run_pod_sandbox(objects.pod("web", memory_limit_bytes=GI))
        container = objects.container(other, "nginx", memory_limit_bytes=GI, hugepages=pages)
        with pytest.raises(PluginRefused) as refused:
            runtime.create_container(other, container)
        simulated_host.accounting(process)
        assert simulated_host.stop(process) == 0
    assert len(str(refused.value)) < 1024
    assert "hugepages-2Mi 8Mi free of 128Mi allocatable (120Mi used outside of pods)" in str(
        refused.value
    )
    assert "hugepages-2Mi 0 free of 128Mi allocatable (64Mi used outside of pods)" in str(
        refused.value
    )
    *_, shown = simulated_host.records("hugepage_pools")
    assert shown["assigned_bytes"] == {"0": {PAGES: 0}, "1": {PAGES: 32 * PAGE}}
    assert shown["used_bytes"] == {"0": {PAGES: 60 * PAGE}, "1": {PAGES: 64 * PAGE}}
    assert shown["non_pod_bytes"] == {"0": {PAGES: 60 * PAGE}, "1": {PAGES: 32 * PAGE}}


def test_the_service_follows_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(pages: int) -> None:
        nodes = tuple(NumaNode(n, 4 * GI, {PAGE: pages}, CpuSet([n])) for n in range(2))
        write_overlay(overlay_of(Machine(nodes)), tmp_path)

    write(64)
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", tmp_path / "cgroup")
    service = Service(logs.get_logger(), roots, host_system())
    service.use(build_engine(Settings(), roots))
    assert service.engine is not None
    pod = PodSandbox("s", "u", "ns", "db", "/kubepods/podu", None, {PAGE: 40 * PAGE})
    service.engine.apply(RunPodSandbox(pod))
    service.engine.apply(CreateContainer(pod, Container("c", "s", "x", GI)))
    write(32)
    service.tick()
    before = service.engine.state.accounting.machine_state[0].table(PAGES)
    assert (before.total, before.reserved) == (64 * PAGE, 40 * PAGE)
    monkeypatch.setattr(machine_monitor, "READ_S", 0.0)
    service.tick()
    after = service.engine.state.accounting.machine_state[0].table(PAGES)
    assert (after.total, after.reserved) == (32 * PAGE, 32 * PAGE)
    assert service.engine.context.machine.nodes[1].hugepages == {PAGE: 32}
    service.close()
