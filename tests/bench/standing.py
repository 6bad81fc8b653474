"""What a plugin costs that just stands there: its start, its memory, its idle minute.

Wake-ups are counted while nothing is asked. The plugin is looked at twice, as a service of its
own and as the runtime launches it, together with the keeper that it then has.
"""

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tests.bench.creation import CONSTANT, OURS
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import GI, Host, Programs
from tests.bench.processes import descendants, resident_bytes, usage
from tests.bench.workload import workload

NODES = 8
PODS = 500
PEERS = (CONSTANT, OURS)
LAUNCHED = "launched"
KEEPER = "keeper"

# What a process does after its start is over by then.
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """From exec until the runtime has registered the plugin, and until it may ask it."""

    registered_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """Memory and idleness of one process."""

    rss_bytes: int
    """After the start."""
    rss_filled_bytes: int
    """After 500 pods; 0 where that was not done."""
    idle_cpu_s: float
    """Per minute."""
    wakeups_per_s: float


def measure_starts(programs: Programs, *, rounds: int) -> dict[str, Start]:
    """Return the medians of starts in turns; the first of each is not counted."""
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


def measure_standing(programs: Programs, *, idle_s: float) -> dict[str, Standing]:
    """Return memory and idleness of the peers and of the launched plugin and its keeper.

    Of each peer there are two processes. One ends when the other's idle time begins, and its
    wake-ups are taken from the other's: the kernel counts those of threads that have ended only
    when the process ends. The runtime's children are not ours to wait for; of them the threads
    count that live.
    """
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        filled = _start(stack, root / "filled", programs)
        brief, idle = (_start(stack, root / name, programs) for name in ("brief", "idle"))
        launched = _launched(stack, root, programs)
        time.sleep(SETTLE_S)
        before = {peer: host.end() for peer, (host, _) in brief.items()}
        pids = launched | {peer: host.pid for peer, (host, _) in idle.items()}
        begun = {name: usage(pid) for name, pid in pids.items()}
        memory = {name: resident_bytes(pid) for name, pid in pids.items()}
        time.sleep(idle_s)
        found = {name: usage(pid).since(begun[name]) for name, pid in pids.items()}
        for peer, (host, _) in idle.items():
            wakeups = host.end().ru_nvcsw - before[peer].ru_nvcsw
            found[peer] = replace(found[peer], wakeups=wakeups)
        for _, runtime in filled.values():
            runtime.use(workload(GI), "placed")
            runtime.fill(PODS)
        time.sleep(SETTLE_S)
        full = {peer: resident_bytes(host.pid) for peer, (host, _) in filled.items()}
    return {
        name: Standing(
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
    """Have the plugin launched; return the ids of its process and of its keeper's."""
    folder = root / LAUNCHED
    folder.mkdir()
    (folder / "10-nri-numamem").symlink_to(programs.plugin)
    config = folder / "10-nri-numamem.conf"
    config.write_text(f"stateFile: {folder}/state\nlogFile: {folder}/log\n")
    runtime = stack.enter_context(GoRuntime(programs.go, folder / "nri.sock", folder))
    runtime.start()
    found = descendants(runtime.pid)
    # The keeper is the child of the process that the runtime launched.
    return dict(zip((LAUNCHED, KEEPER), found, strict=True))
