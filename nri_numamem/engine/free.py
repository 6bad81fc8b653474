"""What is free per NUMA node, for the records of decisions.

Every record tells it, a machine may have many nodes, and a container's start waits for the reply.
So the figures are taken from the books when the record is read, which is after the reply. Books
never change, so that makes no difference to them.
"""

from collections.abc import Iterable, Iterator, Mapping

from nri_numamem.engine.plan import RecordValue
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import NodeState


def free(state: EngineState, resources: Iterable[str]) -> Mapping[str, RecordValue]:
    """Return the free bytes per node of some resources: {node: {resource: bytes}}."""
    return _Free(state.books.machine_state, tuple(resources))


class _Free(Mapping[str, RecordValue]):
    # Not of a state: one that a record kept would keep all that it knows.
    def __init__(self, nodes: Mapping[int, NodeState], resources: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._resources = resources

    def __getitem__(self, node_id: str) -> RecordValue:
        tables = self._nodes[int(node_id)].memory_map
        return {name: tables[name].free for name in self._resources if name in tables}

    def __iter__(self) -> Iterator[str]:
        return map(str, self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
