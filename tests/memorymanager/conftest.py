from types import ModuleType

import pytest

from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import NodeSet


@pytest.fixture
def state(worlds: ModuleType) -> State:
    """Six nodes of 4: 0 has a single-node assignment, 1-2 are a group, 3-5 are unassigned."""
    state = worlds.empty_state({n: {"memory": 4} for n in range(6)})
    state = assign(state, "one", "x", NodeSet([0]), {"memory": 1})
    return assign(state, "two", "x", NodeSet([1, 2]), {"memory": 5})
