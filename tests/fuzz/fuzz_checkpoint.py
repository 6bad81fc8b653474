"""The kubelet's state file: any bytes give a checkpoint or one line that says why not.

What was read can be written as V1 and read again, unless a node set of it holds nothing that a
file could: then the values differ in nothing but their form.
"""

from nri_numamem.memorymanager.checkpoint import (
    CheckpointError,
    format_checkpoint_v1,
    parse_checkpoint,
    verify,
)
from nri_numamem.memorymanager.state import state_as_written
from tests.fuzz.checks import check_one_line


def one_input(data: bytes) -> None:
    """Read, judge, write and read again."""
    try:
        found = parse_checkpoint(data)
    except CheckpointError as error:
        check_one_line(error)
        return
    if found.is_verified:
        verify(found)
    books = state_as_written(found.machine_state, found.entries)
    again = parse_checkpoint(format_checkpoint_v1(books, found.policy_name))
    verify(again)
    assert again.policy_name == found.policy_name
    assert again.machine_state == books.machine_state
    assert again.entries == books.assignments
