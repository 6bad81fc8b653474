"""A host with a plugin's state, lock and cgroups in a directory, for commands that read it.

The state is that of an engine that placed the pods. The cgroups are those of cgroup v2, with the
kubelet's cgroupfs layout.
"""

import argparse
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.live import collect
from nri_numamem.config.load import load_file
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import effective_settings
from nri_numamem.daemon.lock_holder import format_holder
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    StopContainer,
    StopPodSandbox,
)
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import (
    PluginFacts,
    RuntimeFacts,
    Setting,
    StartMode,
    encode,
    plugin_file_of,
)
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

GI = 1 << 30
CHANGED_S = 1_790_000_000
NOW_S = CHANGED_S + 200_000
_CLOSE = {0: 1, 1: 0, 2: 3, 3: 2}


def four_nodes() -> Machine:
    """64 GiB and four 1Gi pages each; 0-1 and 2-3 are close."""
    return Machine(
        tuple(
            NumaNode(
                node,
                64 * GI,
                {GI: 4},
                CpuSet([node]),
                {o: 10 if o == node else 12 if o == _CLOSE[node] else 21 for o in _CLOSE},
            )
            for node in _CLOSE
        )
    )


class LiveHost:
    """The files of a host below `root`."""

    def __init__(self, root: Path, machine: Machine, config: str = "") -> None:
        self.root = root
        self.cgroups = root / "cgroup"
        self.state_file = root / "lib/state"
        self.config = root / "config.yaml"
        self.state_file.parent.mkdir(parents=True)
        self.config.write_text(config)
        self.cgroups.mkdir()
        (self.cgroups / "cgroup.controllers").write_text("cpuset memory hugetlb\n")
        write_overlay(overlay_of(machine), root)
        self.engine = Engine(context_of(load_file(self.config), machine))
        self._ids = 0

    def arguments(self) -> list[str]:
        """Return the options with which a command reads this host."""
        options = {
            "--state-file": self.state_file,
            "--config": self.config,
            "--sysfs-root": self.root / "sys",
            "--proc-root": self.root / "proc",
            "--cgroup-root": self.cgroups,
        }
        return [str(word) for option in options.items() for word in option]

    def parsed(self) -> argparse.Namespace:
        """Return the parsed options."""
        parser = argparse.ArgumentParser()
        collect.add_arguments(parser)
        return parser.parse_args(self.arguments())

    def new_id(self) -> str:
        self._ids += 1
        return f"{0xABC << 244 | self._ids:064x}"

    def sandbox(self, uid: str, memory_bytes: int = 0) -> PodSandbox:
        """Return a Guaranteed pod whose cgroup exists."""
        parent = f"/kubepods/pod{uid}"
        self.directory(uid).mkdir(parents=True, exist_ok=True)
        return PodSandbox(self.new_id(), uid, "shop", f"{uid}-x", parent, memory_bytes or None)

    def directory(self, uid: str, container_id: str = "") -> Path:
        return self.cgroups / "kubepods" / f"pod{uid}" / container_id

    def create(
        self, pod: PodSandbox, name: str, memory_bytes: int, pages: int = 0
    ) -> tuple[Container, Plan]:
        """Create a container in the engine, without a cgroup."""
        limits = {GI: pages * GI} if pages else {}
        container = Container(self.new_id(), pod.sandbox_id, name, memory_bytes, limits)
        plan = self.engine.apply(CreateContainer(pod, container), CHANGED_S).plan
        return container, plan

    def run(
        self,
        uid: str,
        name: str,
        memory_bytes: int,
        pages: int = 0,
        used: Mapping[int, int] | None = None,
    ) -> Container:
        """Create a pod with one container that has processes; `used` is anonymous memory."""
        pod = self.sandbox(uid, memory_bytes)
        container, plan = self.create(pod, name, memory_bytes, pages)
        assert plan.adjustment is not None
        self.write_cgroup(uid, container.container_id, plan.adjustment.cpuset_mems, memory_bytes)
        self.use(uid, container.container_id, used or {})
        return container

    def write_cgroup(self, uid: str, container_id: str, mems: str, memory_bytes: int) -> Path:
        """Write the cgroup of a container with processes."""
        directory = self.directory(uid, container_id)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.events").write_text("populated 1\n")
        (directory / "cpuset.mems").write_text(f"{mems}\n")
        (directory / "cpuset.mems.effective").write_text(f"{mems or '0-3'}\n")
        (directory / "memory.max").write_text(f"{memory_bytes}\n")
        return directory

    def use(
        self, uid: str, container_id: str, anon: Mapping[int, int], file: Mapping[int, int] = {}
    ) -> None:
        """Let a container have memory: NUMA node id -> bytes."""
        lines = [
            f"{name}{''.join(f' N{node}={size}' for node, size in sizes.items())}\n"
            for name, sizes in (("anon", anon), ("file", file))
        ]
        (self.directory(uid, container_id) / "memory.numa_stat").write_text("".join(lines))

    def stop(self, uid: str, container: Container) -> None:
        """End a container; its pod goes on."""
        pod = next(p for p in self.engine.state.pods.values() if p.uid == uid)
        self.engine.apply(StopContainer(pod, container))
        (self.directory(uid, container.container_id) / "cgroup.events").write_text("populated 0\n")

    def use_hugepages(self, node: int, pages: int) -> None:
        """Let something use 1Gi pages of a node, which the cgroups do not show."""
        pool = f"sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB"
        (self.root / pool / "free_hugepages").write_text(f"{4 - pages}\n")

    def start_process(
        self,
        pid: int,
        name: str,
        size_bytes: int,
        cgroup: str,
        pages: Mapping[int, int] | None = None,
    ) -> None:
        """Let a process have hugepages; `pages` is NUMA node id -> 1Gi pages, if it is known."""
        directory = self.root / "proc" / str(pid)
        directory.mkdir(parents=True)
        status = f"Name:\t{name}\nHugetlbPages:\t{size_bytes >> 10:8} kB\n"
        (directory / "status").write_text(status)
        (directory / "cgroup").write_text(f"0::{cgroup}\n")
        if pages is not None:
            where = "".join(f" N{node}={count}" for node, count in pages.items())
            line = f"7efc40000000 default file=/x huge dirty=1{where} kernelpagesize_kB=1048576\n"
            (directory / "numa_maps").write_text(line)

    def save(self) -> None:
        """Write the state file."""
        self.state_file.write_bytes(snapshot(self.engine.state))
        os.utime(self.state_file, (CHANGED_S, CHANGED_S))

    def describe(self, **changes: object) -> None:
        """Write plugin.json: a connected plugin with the settings of the configuration."""
        found = effective_settings(load_file(self.config)).items()
        facts = PluginFacts(
            version="1.2.3",
            pid=2114,
            mode=StartMode.LAUNCHED,
            started_as="launched by containerd",
            started_s=CHANGED_S - 2,
            settings={key: Setting(value, origin) for key, (value, origin) in found},
            runtime=RuntimeFacts("containerd", "2.1.9", "0.11.0", CHANGED_S - 1),
            is_connected=True,
            connection_changed_s=CHANGED_S - 1,
        )
        path = plugin_file_of(self.state_file)
        path.write_bytes(encode(replace(facts, **changes)))  # type: ignore[arg-type]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let a plugin run: its lock is held."""
        with lock_file_of(self.state_file).open("w+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(format_holder(2114, "2026-09-19T12:00:00Z", "launched by containerd"))
            lock.flush()
            yield


def host_with_a_small_pod(root: Path) -> LiveHost:
    """Return a host with 0 and 1 free but for a pod on node 1, which fits on node 3 too."""
    host = LiveHost(root, four_nodes())
    for uid, size in (("gone", 58), ("small", 5), ("other", 54), ("large", 58), ("p3", 40)):
        host.run(uid, "c", size * GI)
    for uid in ("gone", "other"):
        pod = next(p for p in host.engine.state.pods.values() if p.uid == uid)
        host.engine.apply(StopPodSandbox(pod))
    host.save()
    return host
