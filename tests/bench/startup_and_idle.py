"""Measure a plugin without requests: start time, resident memory, idle CPU time and wake-ups.

Our plugin is measured twice: as an external service, and launched by the runtime. An observer or a
supervisor runs beside it.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.creation import CONSTANT, OURS
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import GI, Host, Programs
from tests.bench.processes import Observation, descendants, observe, resident_bytes
from tests.bench.workload import workload

NODES = 8
PODS = 500
PEERS = (CONSTANT, OURS)
LAUNCHED = "launched"
SUPERVISOR = "supervisor"
OBSERVER = "observer"

# Time for the work that a process does after its start.
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from exec to the registration, and to the end of Synchronize."""

    registered_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class IdleUsage:
    """Memory and idleness of one process."""

    rss_bytes: int
    """After the start."""
    rss_filled_bytes: int
    """After 500 pods; 0 where this was not measured."""
    idle_cpu_s: float
    """Per minute."""
    wakeups_per_s: float


def measure_starts(
    programs: Programs, *, rounds: int, before: Callable[[], None] = lambda: None
) -> dict[str, Start]:
    """Return medians of starts in turns, without the first start of each plugin.

    `before` is called before each start.
    """
    times: dict[str, list[Start]] = {peer: [] for peer in PEERS}
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = {peer: stack.enter_context(Host(root / peer, NODES, programs)) for peer in PEERS}
        runtimes = {
            peer: stack.enter_context(GoRuntime(programs.go, host.socket))
            for peer, host in hosts.items()
        }
        for runtime in runtimes.values():
            runtime.start()
        for _ in range(rounds + 1):
            for peer, host in hosts.items():
                before()
                host.start(peer)
                arrival = host.wait_for(runtimes[peer])
                began = host.started_at_s
                times[peer].append(
                    Start(arrival.registered_at_s - began, arrival.ready_at_s - began)
                )
                host.close()
    return {
        peer: Start(
            median(start.registered_s for start in found[1:]),
            median(start.ready_s for start in found[1:]),
        )
        for peer, found in times.items()
    }


def measure_idle(programs: Programs, *, idle_s: float) -> dict[str, IdleUsage]:
    """Return memory and idle usage of the peers, the launched plugin and the processes beside."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        filled, idle = (_start(stack, root / name, programs) for name in ("filled", "idle"))
        pids = {peer: host.pid for peer, (host, _) in idle.items()}
        (pids[OBSERVER],) = descendants(pids[OURS])
        pids |= _launched(stack, root, programs)
        time.sleep(SETTLE_S)
        memory = {name: resident_bytes(pid) for name, pid in pids.items()}
        observations = {name: Observation(pid) for name, pid in pids.items()}
        observe(observations.values(), idle_s)
        found = {name: observation.usage() for name, observation in observations.items()}
        for _, runtime in filled.values():
            runtime.set_workload(workload(GI), "placed")
            runtime.fill(PODS)
        time.sleep(SETTLE_S)
        full = {peer: resident_bytes(host.pid) for peer, (host, _) in filled.items()}
    return {
        name: IdleUsage(
            memory[name], full.get(name, 0), used.cpu_s * 60 / idle_s, used.wakeups / idle_s
        )
        for name, used in found.items()
    }


def _start(stack: ExitStack, root: Path, programs: Programs) -> dict[str, tuple[Host, GoRuntime]]:
    started: dict[str, tuple[Host, GoRuntime]] = {}
    for peer in PEERS:
        host = stack.enter_context(Host(root / peer, NODES, programs))
        runtime = stack.enter_context(GoRuntime(programs.go, host.socket))
        runtime.start()
        host.start(peer)
        host.wait_for(runtime)
        started[peer] = (host, runtime)
    return started


def _launched(stack: ExitStack, root: Path, programs: Programs) -> dict[str, int]:
    """Let the runtime launch the plugin; return the pids of the plugin and its supervisor."""
    folder = root / LAUNCHED
    folder.mkdir()
    (folder / "10-nri-numamem").symlink_to(programs.plugin)
    config = folder / "10-nri-numamem.conf"
    config.write_text(f"stateFile: {folder}/state\nlogFile: {folder}/log\n")
    runtime = stack.enter_context(GoRuntime(programs.go, folder / "nri.sock", folder))
    runtime.start()
    found = descendants(runtime.pid)
    # The supervisor is the child of the process that the runtime launched.
    return dict(zip((LAUNCHED, SUPERVISOR), found, strict=True))
