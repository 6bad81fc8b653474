"""Whether the memory policy of a container can be set by its runtime and on its kernel."""

from nri_numamem.engine.core.events import PolicyRequest
from nri_numamem.numa import PolicyMode


def unsupported(request: PolicyRequest, mode: PolicyMode) -> str:
    """Return why runtime or kernel cannot set the mode; "" if they can."""
    support = request.support
    is_missing = mode in support.missing_modes
    return support.obstacle or (f"the kernel lacks the mode {mode}" if is_missing else "")
