"""All faults with their weights, and the choice among them."""

import random
from collections.abc import Callable

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

Fault = Callable[[Life, random.Random], bool]
"""Injects a fault, or returns False if this life cannot have it."""

FAULTS: dict[str, tuple[Fault, int]] = {
    "plugin killed": (kill_plugin, 8),
    "plugin killed in a request": (kill_plugin_in_request, 9),
    "plugin restarted": (restart_plugin, 5),
    "reply lost": (lose_reply, 14),
    "cut while connecting": (lose_while_connecting, 9),
    "runtime killed": (kill_runtime, 9),
    "runtime killed in a request": (kill_runtime_in_request, 8),
    "runtime flaps": (flap_runtime, 3),
    "plugin stopped": (pause_plugin, 8),
    "plugin stopped for seconds": (pause_plugin_for_seconds, 2),
    "runtime does not read": (stall_runtime_reads, 7),
    "runtime stopped": (pause_runtime, 5),
    "disk full": (fill_disk, 6),
    "file system frozen": (freeze_disk, 6),
    "machine changed between starts": (change_machine, 5),
    "machine changed": (change_machine_under, 5),
    "state file damaged": (damage_state, 5),
    "second instance": (second_instance, 3),
}


def any_fault(life: Life, rng: random.Random) -> None:
    """Inject a possible fault."""
    weights = [weight for _, weight in FAULTS.values()]
    while True:
        (name,) = rng.choices(list(FAULTS), weights)
        if FAULTS[name][0](life, rng):
            life.faults[name] += 1
            return
