"""Records of remote memory and head-room."""

from nri_numamem.engine.features.residency import records
from nri_numamem.engine.features.residency.head_room import HeadRoom
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages
from tests.engine.conftest import MI, Host

NODES = NodeSet([0])


def test_remote_memory(host: Host) -> None:
    host.create(host.run("a"), container_id="c")
    state = host.engine.state
    pages = Pages({0: MI, 1: 2 * MI}, {2: MI}, {}, {3: MI})
    holder = state.holders["a", "main"]
    found = records.remote_memory_found(state, holder, NODES, pages, ["x", "y"])
    assert found.event is EventName.REMOTE_MEMORY_FOUND
    assert found.fields == {
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
    cleared = records.remote_memory_cleared(state, holder, NODES, Pages({0: MI}))
    assert cleared.event is EventName.REMOTE_MEMORY_CLEARED
    assert cleared.fields["resident_bytes"] == {"0": MI}
    assert cleared.fields["remote_bytes"] == {}


def test_head_room() -> None:
    room = HeadRoom(NodeSet([0, 1]), 1000, 500, 400, 600)
    limit = HeadRoomLimit(percent=20)
    low = records.head_room(EventName.HEAD_ROOM_LOW, room, limit)
    assert low.fields == {
        "nodes": "0-1",
        "available_bytes": 600,
        "unfaulted_bytes": 500,
        "head_room_bytes": 100,
        "limit_bytes": 200,
    }
    restored = records.head_room(EventName.HEAD_ROOM_RESTORED, room, limit)
    assert (restored.fields["available_bytes"], restored.fields["head_room_bytes"]) == (400, -100)
