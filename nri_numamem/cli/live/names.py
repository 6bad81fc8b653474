"""Names of the pods in a state."""

from nri_numamem.engine.core.state import EngineState


def pod_names(state: EngineState) -> dict[str, tuple[str, str]]:
    """Return pod uid -> namespace and name, of the pods whose names are known."""
    reasons = (*state.reasons.pinned.values(), *state.reasons.unpinned.values())
    return {reason.key[0]: (reason.namespace, reason.pod) for reason in reasons}
