"""Counts the interpreter's operations of a call, for tests of how its work grows.

The number does not depend on the machine or its load. Work inside a single operation, such as the
copy of a dict, is not visible.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def count_operations(call: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that `call` runs, in all Python functions."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> "TraceFunction":
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
