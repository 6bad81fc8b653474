"""What is free per node, worked out when it is read."""

import json

from nri_numamem.engine.free import free
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import Machine, NumaNode, default_state
from nri_numamem.observe.render import render_json

GI = 1 << 30


def test_it_reads_as_the_mapping_that_it_is() -> None:
    machine = Machine((NumaNode(0, GI, {2 << 20: 1}), NumaNode(12, 2 * GI)))
    found = free(EngineState(default_state(machine, {})), ["memory", "hugepages-2Mi"])
    expected = {
        "0": {"memory": GI - (2 << 20), "hugepages-2Mi": 2 << 20},
        "12": {"memory": 2 * GI},
    }
    assert found == expected
    assert len(found) == 2
    record = {"ts": "", "level": "info", "event": "x", "free": found}
    assert json.loads(render_json(record))["free"] == expected
