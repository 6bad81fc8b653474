"""Records of the allocation state as a whole."""

from nri_numamem.engine.core.events import Synchronize
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.running.records import synchronized
from nri_numamem.memorymanager import default_state
from nri_numamem.numa import Machine, NumaNode


def test_a_rebuilt_state() -> None:
    state = EngineState(default_state(Machine((NumaNode(0, 1 << 30),)), {}))
    record = synchronized(
        state, Synchronize((), ()), adopted_count=2, updated_count=1, not_managed={"why": 3}
    )
    assert fields_of(record) == {
        "pod_count": 0,
        "container_count": 0,
        "adopted_count": 2,
        "updated_count": 1,
        "not_managed": {"why": 3},
        "free_bytes": {"0": {"memory": 1 << 30}},
    }
