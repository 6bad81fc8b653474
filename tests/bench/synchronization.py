"""Measure Synchronize, each time with a plugin that has just started, for all plugins in turns."""

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.creation import PEERS
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import MI, Host, Programs
from tests.bench.workload import workload

CONTAINERS = (110, 1000, 5000)
NODES = 8

# 5,000 containers of this size use five eighths of the machine.
CONTAINER_BYTES = 128 * MI


def measure(
    programs: Programs, containers: int, *, rounds: int, peers: Sequence[str] = PEERS
) -> dict[str, float]:
    """Return each plugin's median seconds for this number of pods with one container each."""
    times: dict[str, list[float]] = {peer: [] for peer in peers}
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = {peer: stack.enter_context(Host(root / peer, NODES, programs)) for peer in peers}
        runtimes = {
            peer: stack.enter_context(GoRuntime(programs.go, host.socket))
            for peer, host in hosts.items()
        }
        for runtime in runtimes.values():
            runtime.set_workload(workload(CONTAINER_BYTES))
            runtime.set_content(containers, NODES)
            runtime.start()
        for _ in range(rounds):
            for peer, host in hosts.items():
                host.start(peer, state_file=False)
                times[peer].append(host.wait_for(runtimes[peer]).synchronize_s)
                host.close()
    return {peer: median(found) for peer, found in times.items()}
