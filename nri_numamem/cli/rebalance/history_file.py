"""The file of what the agent has evicted, beside the plugin's state file. Only the agent writes it.

It outlives the agent, so that an agent that restarts again and again evicts no more than the rules
permit.
"""

import time
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.export.rebalancing import (
    EvictionHistory,
    EvictionHistoryError,
    from_bytes,
    to_bytes,
)
from nri_numamem.observe.files import beside, read_regular, reason_of, replace_file

_SIZE_LIMIT_BYTES = 4 << 20


class EvictionHistoryFile:
    """Reads and replaces the file."""

    def __init__(self, state_file: Path) -> None:
        self.path = beside(state_file, "rebalancing") / "evictions.json"

    def read(self) -> EvictionHistory:
        """Return the history; empty without a file. Raises UsageError."""
        try:
            return from_bytes(read_regular(self.path, _SIZE_LIMIT_BYTES), time.time())
        except FileNotFoundError:
            return EvictionHistory()
        except OSError as error:
            raise UsageError(f"{self.path}: {reason_of(error)}; run the agent as root") from error
        except EvictionHistoryError as error:
            raise UsageError(f"{self.path}: {error}; remove the file") from error

    def write(self, history: EvictionHistory) -> None:
        """Replace the file; raise UsageError if that fails."""
        try:
            replace_file(self.path, to_bytes(history))
        except OSError as error:
            remedy = "let the agent write there, see docs/rebalancing.md"
            raise UsageError(f"{self.path}: {reason_of(error)}; {remedy}") from error
