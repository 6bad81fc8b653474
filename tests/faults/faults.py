"""The faults of lives with processes."""

import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from tests.faults.host_faults import (
    change_machine,
    change_machine_under,
    damage_state,
    fill_disk,
    freeze_disk,
    second_instance,
)
from tests.faults.life import Life
from tests.faults.process_faults import (
    flap_runtime,
    kill_plugin,
    kill_plugin_in_request,
    kill_runtime,
    kill_runtime_in_request,
    lose_reply,
    lose_while_connecting,
    pause_plugin,
    pause_plugin_for_seconds,
    pause_runtime,
    restart_plugin,
    stall_runtime_reads,
)
from tests.sequences.operations import Fault

FaultPlayer: TypeAlias = Callable[[Life, random.Random], bool]
"""Injects a fault, or returns False if this life cannot have it."""

FAULTS: Mapping[str, FaultPlayer] = {
    "plugin killed": kill_plugin,
    "plugin killed in a request": kill_plugin_in_request,
    "plugin restarted": restart_plugin,
    "reply lost": lose_reply,
    "cut while connecting": lose_while_connecting,
    "runtime killed": kill_runtime,
    "runtime killed in a request": kill_runtime_in_request,
    "runtime flaps": flap_runtime,
    "plugin stopped": pause_plugin,
    "plugin stopped for seconds": pause_plugin_for_seconds,
    "runtime does not read": stall_runtime_reads,
    "runtime stopped": pause_runtime,
    "disk full": fill_disk,
    "disk frozen": freeze_disk,
    "machine changed while away": change_machine,
    "machine changed": change_machine_under,
    "state file damaged": damage_state,
    "second instance": second_instance,
}


def inject(life: Life, fault: Fault, faults: Mapping[str, FaultPlayer] = FAULTS) -> None:
    """Inject a fault: the first of its kinds that is possible."""
    for kind in fault.kinds:
        if kind in faults and faults[kind](life, random.Random(fault.seed)):
            life.faults[kind] += 1
            return
