"""The plugin's state file: any bytes give a state or an error of one line.

After an even first byte the other bytes are the whole file. After an odd one they are the payload,
to which the target adds version and checksum. Every state is written as it was read, and an engine
can start with it.
"""

import json
import zlib

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, Synchronize
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import VERSION, restore, snapshot
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
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
        crc32 = zlib.crc32(payload.encode())
        text = json.dumps({"version": VERSION, "crc32": crc32, "payload": payload})
        file = text.encode()
    try:
        restored = restore(file)
    except SnapshotError as error:
        check_one_line(error)
        return
    assert snapshot(restore(snapshot(restored))) == snapshot(restored)
    for scope in ("container", "pod"):
        _start(restored, scope)


def _start(restored: EngineState, scope: str) -> None:
    reserved = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(2))
    settings = Policy(topology_manager_scope=scope, reserved_memory=reserved)
    engine = Engine(new_context(small_machine(2), settings), restored)
    for event in (Synchronize((_POD,), (_RUNNING,)), CreateContainer(_POD, _NEW)):
        check_records(list(engine.apply(event).records))
        check_engine(engine)
