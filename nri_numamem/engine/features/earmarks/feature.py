"""The feature that room can be set aside: what stays of it when the runtime connects again.

Placements leave out earmarks wherever the state has some (``core.allowed_nodes``). This feature
keeps them at a Synchronize. Without the setting there are none.
"""

from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Synchronize
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.state import EngineState


class SetAsideRoom(Feature):
    """Room can be set aside for pods (`earmarks`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether memory is managed."""
        return context.policy.is_static

    def began(self, state: EngineState, old: EngineState, event: Synchronize) -> EngineState:
        """Return the state with the earmarks; running containers are recorded in spite of them."""
        return replace(state, earmarks=old.earmarks)
