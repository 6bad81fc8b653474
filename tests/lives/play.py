"""Plays one virtual life from its seed."""

import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.faults.failure import Failure
from tests.faults.host import LifeHost
from tests.faults.life import Life
from tests.faults.parameters import FAKE, choose
from tests.faults.partitions import partitioned_life
from tests.faults.parts import Parts
from tests.faults.play import run_life
from tests.laboratory.version import RuntimeVersion
from tests.lives.cgroups import HostCgroups
from tests.lives.faults import faults_of
from tests.lives.plugin import VirtualPlugin
from tests.lives.runtime import LifeProxy, LifeRuntime
from tests.sequences.node_life import NodeLife
from tests.virtual.system import Machinery
from tests.virtual.world import World

STEPS = (20, 30)
MIN_CALLS = 100
# Some six faults in a life, each with a new connection.
_FAULT_SHARE = 0.075

# Periodic work of the plugin is due every 10 s at most; a failed write is repeated after 30 s.
_EVENTUALLY_S = 60.0


@dataclass
class Report:
    """The outcome of a life."""

    seed: int
    problem: str = ""
    history: list[str] = field(default_factory=list)
    records: list[dict[str, object]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    connections: int = 0
    has_partitions: bool = False
    virtual_s: float = 0.0
    took_s: float = 0.0


class LifeClock:
    """The world's clock, as the life uses it: while the life waits, the plugin runs."""

    poll_s = 1.0
    pauses_s: tuple[float, ...] = (1.0, 3.0, 6.0, 10.0, 45.0)
    flaps_s: tuple[float, ...] = (0.1, 0.4, 1.0)

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic_s(self) -> float:
        return self._world.now_s

    def sleep(self, seconds: float) -> None:
        self._world.advance(seconds)

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self._world.after(seconds, call)
        return lambda: self.sleep(seconds)


def virtual_parts(machinery: Machinery, data: NodeLife, root: Path) -> Parts:
    """Return the parts of a virtual life."""
    host = LifeHost(root, data.machine, mounts=False)
    rng = random.Random(f"{data.seed}")
    parameters = replace(choose(rng, host, data.settings, FAKE), is_launched=False)
    assert isinstance(parameters.version, RuntimeVersion)
    runtime = LifeRuntime(
        machinery.world,
        machinery.network,
        host.socket,
        parameters.version,
        parameters.request_timeout_ms / 1000,
        configure_first=parameters.variations["configure_first"],
        sync_limit_bytes=40_000 if parameters.variations["small_parts"] else 4 << 20,
    )
    plugin = VirtualPlugin(machinery, host, parameters.config)
    clock = LifeClock(machinery.world)
    return Parts(host, parameters, runtime, plugin, LifeProxy(runtime), clock, _EVENTUALLY_S)


def play(seed: int, directory: str | None = None, steps: tuple[int, int] = STEPS) -> Report:
    """Play the life of a seed; `directory` takes its files, which are removed afterwards."""
    begin_s = time.monotonic()
    data = partitioned_life(seed)
    report = Report(seed, has_partitions=bool(data.settings.partitions))
    root = Path(tempfile.mkdtemp(prefix=f"lives-{seed}-", dir=directory))
    world = World()
    began_s = world.now_s
    machinery = Machinery(world, f"{seed}")
    life = Life(data, virtual_parts(machinery, data, root / "host"))
    life.host.has_container_cgroups = True
    life.node.cgroups = HostCgroups(life.host)
    life.node.has_devices = data.has_devices
    if data.settings.policy == "best-effort":  # others refuse what their hints keep off free nodes
        for node_id in life.host.machine.node_set:
            life.host.add_network_device(f"nic{node_id}", node_id)
            life.node.network_devices += (f"nic{node_id}",)
    try:
        run_life(life, steps, faults_of(machinery), fault_share=_FAULT_SHARE, min_calls=MIN_CALLS)
    except Failure as failure:
        report.problem = str(failure)
    except Exception:  # noqa: BLE001 - a bug of this program is a finding too
        report.problem = traceback.format_exc()
    finally:
        life.close()
        shutil.rmtree(root, ignore_errors=True)
    report.history, report.records = life.history, life.plugin.journal.records
    report.faults, report.calls, report.connections = life.faults, life.calls, life.connections
    report.virtual_s = world.now_s - began_s
    report.took_s = time.monotonic() - begin_s
    return report
