"""Records of remote memory and head-room."""

from nri_numamem.engine.core.fields import holder_names
from nri_numamem.engine.cpusets.records import pages_shown
from nri_numamem.engine.features.residency import records
from nri_numamem.engine.features.residency.head_room import HeadRoom
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages
from tests.engine.conftest import MI, Host

NODES = NodeSet([0])


def test_remote_memory(host: Host) -> None:
    host.create(host.run("a"), container_id="c")
    state = host.engine.state
    pages = Pages({0: MI, 1: 2 * MI}, {2: MI}, {}, {3: MI})
    found = records.RemoteMemoryFound(
        names=holder_names(state, state.holders["a", "main"]),
        nodes=NODES,
        pages=pages_shown(NODES, pages),
        cause="x; y",
    )
    assert fields_of(found) == {
        "pod": "pod-a",
        "namespace": "ns",
        "container": "main",
        "pod_uid": "a",
        "container_id": "c",
        "nodes": "0",
        "resident_bytes": {"0": MI, "1": 2 * MI, "2": MI},
        "remote_bytes": {"1": 2 * MI, "2": MI},
        "cause": "x; y",
    }


def test_head_room() -> None:
    room = HeadRoom(NodeSet([0, 1]), 1000, 500, 400, 600)
    limit = HeadRoomLimit(percent=20)
    low = records.head_room(room, limit, is_low=True)
    assert fields_of(low) == {
        "nodes": "0-1",
        "available_bytes": 600,
        "unfaulted_bytes": 500,
        "head_room_bytes": 100,
        "limit_bytes": 200,
    }
    restored = records.head_room(room, limit, is_low=False)
    assert (restored.room.available_bytes, restored.room.head_room_bytes) == (400, -100)
