"""Records of the allocation state as a whole."""

from collections.abc import Mapping

from nri_numamem.engine.core.events import Synchronize
from nri_numamem.engine.core.fields import free_bytes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.connection import Synchronized
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import MEMORY


def synchronized(
    state: EngineState,
    event: Synchronize,
    adopted_count: int,
    updated_count: int,
    not_managed: Mapping[str, int],
) -> Record:
    """Record that the allocation state was rebuilt from the runtime's list.

    `not_managed` maps why running containers are not managed to their number.
    """
    return Synchronized(
        pod_count=len(event.pods),
        container_count=len(event.containers),
        adopted_count=adopted_count,
        updated_count=updated_count,
        not_managed=not_managed,
        free_bytes=free_bytes(state.accounting, (MEMORY,), state.accounting.machine_state),
    )
