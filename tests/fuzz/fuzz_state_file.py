"""The kubelet's state file: any bytes give its content or an error of one line.

The content can be written as V1 and read again. Only node sets that V1 cannot represent differ
afterwards, in their form and not in their value.
"""

from nri_numamem.kubelet.state_file import (
    CheckpointError,
    format_checkpoint_v1,
    parse_checkpoint,
    verify,
)
from nri_numamem.memorymanager.state import state_as_written
from tests.fuzz.checks import check_one_line


def one_input(data: bytes) -> None:
    """Read, verify, write and read again."""
    try:
        found = parse_checkpoint(data)
    except CheckpointError as error:
        check_one_line(error)
        return
    if found.is_verified:
        verify(found)
    accounting = state_as_written(found.machine_state, found.entries)
    again = parse_checkpoint(format_checkpoint_v1(accounting, found.policy_name))
    verify(again)
    assert again.policy_name == found.policy_name
    assert again.machine_state == accounting.machine_state
    assert again.entries == accounting.assignments
