"""All faults with their weights, and the choice among them."""

import random
from collections.abc import Callable

from tests.faults.injections import (
    freeze_plugin,
    freeze_runtime,
    hang_plugin,
    kill_plugin,
    kill_plugin_in_request,
    kill_runtime,
    kill_runtime_in_request,
    lose_reply,
    lose_while_connecting,
    restart_plugin,
    stall_peer,
)
from tests.faults.injections_host import (
    change_machine,
    change_machine_under,
    damage_state,
    fill_disk,
    second_instance,
)
from tests.faults.life import Life

Fault = Callable[[Life, random.Random], bool]
"""Injects something, or returns False where this life cannot have it."""

FAULTS: dict[str, tuple[Fault, int]] = {
    "plugin killed": (kill_plugin, 8),
    "plugin killed in a request": (kill_plugin_in_request, 9),
    "plugin restarted": (restart_plugin, 5),
    "reply lost": (lose_reply, 14),
    "cut while connecting": (lose_while_connecting, 9),
    "runtime killed": (kill_runtime, 9),
    "runtime killed in a request": (kill_runtime_in_request, 8),
    "plugin stopped": (freeze_plugin, 8),
    "plugin stopped for too long": (hang_plugin, 2),
    "runtime's side does not read": (stall_peer, 7),
    "runtime stopped": (freeze_runtime, 5),
    "disk full": (fill_disk, 6),
    "machine changed while away": (change_machine, 5),
    "machine changed": (change_machine_under, 5),
    "state file damaged": (damage_state, 5),
    "second instance": (second_instance, 3),
}


def any_fault(life: Life, rng: random.Random) -> None:
    """Inject a fault that is possible."""
    weights = [weight for _, weight in FAULTS.values()]
    while True:
        (name,) = rng.choices(list(FAULTS), weights)
        if FAULTS[name][0](life, rng):
            life.faults[name] += 1
            return
