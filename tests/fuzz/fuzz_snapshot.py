"""The plugin's own state file: a state comes out of any bytes, or one line that says why not.

After an even first byte the rest is the whole file, after an odd one the payload, to which version
and checksum are added. A state that was read is written as it was read, and an engine can be
started with it, whatever it says.
"""

import hashlib
import json

from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Container, CreateContainer, PodSandbox, Synchronize
from nri_numamem.engine.settings import MemoryReservation, Settings
from nri_numamem.engine.snapshot import VERSION, SnapshotError, restore, snapshot
from nri_numamem.engine.state import EngineState
from tests.fuzz.checks import check_one_line
from tests.fuzz.hosts import MI, check_engine, check_records, small_machine

_POD = PodSandbox("s0", "u0", "ns", "pod", "/kubepods/podu0", 400 * MI)
_RUNNING = Container("c0", "s0", "main", 200 * MI, cpuset_mems="0")
_NEW = Container("c1", "s0", "side", 200 * MI)


def one_input(data: bytes) -> None:
    """Read, write, and start engines of both scopes."""
    file = data[1:]
    if data[:1] and data[0] % 2:
        payload = file.decode("utf-8", "replace")
        sha256 = hashlib.sha256(payload.encode()).hexdigest()
        text = json.dumps({"version": VERSION, "sha256": sha256, "payload": payload})
        file = text.encode()
    try:
        former = restore(file)
    except SnapshotError as error:
        check_one_line(error)
        return
    assert snapshot(restore(snapshot(former))) == snapshot(former)
    for scope in ("container", "pod"):
        _start(former, scope)


def _start(former: EngineState, scope: str) -> None:
    reserved = tuple(MemoryReservation(node, {"memory": 64 * MI}) for node in range(2))
    settings = Settings(topology_manager_scope=scope, reserved_memory=reserved)
    engine = Engine(Context.of(small_machine(2), settings), former)
    for event in (Synchronize((_POD,), (_RUNNING,)), CreateContainer(_POD, _NEW)):
        check_records(list(engine.handle(event).records))
        check_engine(engine)
