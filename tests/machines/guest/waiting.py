"""Wait for a condition that another process fulfils."""

import time
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")
_POLL_S = 0.1

# Far longer than anything takes here: an emulated machine on a busy host may need minutes to start
# Python, and only a failure lasts this long.
TIMEOUT_S = 400.0


def wait_until(
    attempt: Callable[[], _Value | None], what: str, timeout_s: float = TIMEOUT_S
) -> _Value:
    """Call `attempt` until its result is true; return it. Raise TimeoutError with `what`."""
    deadline = time.monotonic() + timeout_s
    while not (value := attempt()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(_POLL_S)
    return value
