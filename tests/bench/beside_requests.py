"""Measure what features do beside the requests: their rounds, and their processes.

The residency check reads files of a simulated host, so the time in which the kernel adds up the
pages of a container is not in it. The helper process reads an empty network namespace.
`python -m tests.bench.beside_requests` prints the table.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

from nri_numamem.daemon.namespace_reader import HelperProcess
from nri_numamem.daemon.residency_check import ResidencyCheck
from nri_numamem.engine.features.residency.setting import Residency
from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability
from tests.bench.host import GI, MI
from tests.bench.processes import PROC, descendants, resident_bytes
from tests.bench.report import markdown
from tests.bench.stages import creation, plugin, pods
from tests.laboratory import api_pb2 as api

CONTAINERS = 110
INTERVAL_S = 60

# Without capabilities, so that a helper that has few may open its namespace.
_NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
_POD = ("unshare", "--net", *_NO_CAPABILITIES, "sh", "-c", "echo; exec cat")
_PLUGIN = "import sys, nri_numamem.cli.run; print(flush=True); sys.stdin.read()"
# Forks the helper as the plugin does, with the plugin's modules, and passes on its socket.
_FORK = """
import socket, sys
from pathlib import Path
import nri_numamem.cli.run
from nri_numamem.daemon import namespace_helper
with socket.socket(fileno=int(sys.argv[1])) as sock, namespace_helper.start(Path("/sys")) as helper:
    socket.send_fds(sock, [b"helper"], [helper.fileno()])
    print(flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Residencies:
    """Seconds of a round of the residency check, and of its longest part at once."""

    round_s: float
    part_s: float


@dataclass(frozen=True, slots=True)
class HelperUse:
    """What the helper process of networkHints takes."""

    reading_s: float
    """Median time of one namespace."""
    resident_bytes: int
    plugin_bytes: int
    """Resident bytes of a process with the modules of the plugin."""


def residency(rounds: int, containers: int = CONTAINERS) -> Residencies:
    """Return the median round, and the median of each round's longest part.

    A request that comes during a part waits for its end. Raise RuntimeError if a round reads other
    containers than those that run.
    """
    spent: list[list[float]] = []
    with plugin() as made:
        content = pods()
        for _ in range(containers):
            pod, container = next(content)
            made.serve(made.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
            made.serve(made.call("CreateContainer", creation(pod, container)))
            parent = pod.linux.cgroup_parent.lstrip("/")
            container.linux.cgroups_path = f"{parent}/{container.id}"
            made.files.write_container(container, "0", {0: GI, 1: 0})
        setting = Residency(INTERVAL_S)
        check, engine = ResidencyCheck(setting, made.files.roots), made.service.engine
        if engine is None:
            raise RuntimeError("the service has no engine")
        for number in range(rounds):
            now_s = float(number * INTERVAL_S)
            parts: list[float] = []
            while check.due(engine, now_s):
                began_s = time.perf_counter()
                check.run(engine, now_s)
                parts.append(time.perf_counter() - began_s)
            if len(check.last.pages) != containers:
                raise RuntimeError(f"a round read {len(check.last.pages)} of {containers}")
            spent.append(parts)
    return Residencies(median(map(sum, spent)), median(map(max, spent)))


def helper(readings: int) -> HelperUse | None:
    """Return what the helper process takes; None without the capability to enter namespaces.

    Raise RuntimeError if it cannot read the namespace.
    """
    if not has_capability(PROC, CAP_SYS_ADMIN):
        return None
    with ExitStack() as stack:
        sock, theirs = socket.socketpair()
        stack.enter_context(sock)
        with theirs:
            number = theirs.fileno()
            starter = (sys.executable, "-c", _FORK, str(number))
            parent = stack.enter_context(_waiting(*starter, pass_fds=(number,)))
        process = HelperProcess(socket.socket(fileno=socket.recv_fds(sock, 9, 1)[1][0]))
        stack.callback(process.close)
        process.wait()
        pod = stack.enter_context(_waiting(*_POD))
        spent = []
        for _ in range(readings):
            began_s = time.perf_counter()
            reply = process.request(f"/proc/{pod}/ns/net")
            spent.append(time.perf_counter() - began_s)
            if "interfaces" not in reply:
                raise RuntimeError(f"the helper process replied {reply}")
        pid = min(descendants(parent))  # its last child may not have ended yet
        plugin_pid = stack.enter_context(_waiting(sys.executable, "-c", _PLUGIN))
        return HelperUse(median(spent), resident_bytes(pid), resident_bytes(plugin_pid))


@contextmanager
def _waiting(*command: str, pass_fds: tuple[int, ...] = ()) -> Iterator[int]:
    """Run a command that prints a line when it is ready and ends with its input; yield its pid."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=pass_fds) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def rows(found: Residencies, used: HelperUse | None) -> list[Sequence[str]]:
    """Return the table."""
    share = found.round_s / INTERVAL_S
    table = [
        ("feature", "work beside the requests", "amount"),
        ("`residency`", f"a round over {CONTAINERS} containers", f"{found.round_s * 1e3:.1f} ms"),
        ("", f"share of a processor, each {INTERVAL_S} s", f"{share * 100:.3f} %"),
        ("", "longest wait of a request", f"{found.part_s * 1e3:.1f} ms"),
    ]
    if used is None:
        return [*table, ("`networkHints`", "helper process", "not measured: needs CAP_SYS_ADMIN")]
    return [
        *table,
        ("`networkHints`", "reading a namespace", f"{used.reading_s * 1e3:.1f} ms"),
        ("", "resident memory of the helper", f"{used.resident_bytes / MI:.1f} MiB"),
        ("", "to that of the plugin's modules", f"{used.resident_bytes / used.plugin_bytes:.2f}"),
    ]


if __name__ == "__main__":
    print(markdown(rows(residency(20), helper(100))))
