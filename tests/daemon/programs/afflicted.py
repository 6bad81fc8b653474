"""The plugin with faults: a container's name is the fault at its creation.

For a container "forgotten" the reply contains nodes, and then the commit fails; for a container
"undead" the commit of its end fails; for a container "deadlocked" the commit never ends.
Run like nri-numamem, or launched by a runtime; the first argument is the time in seconds after
which the supervisor judges a plugin as stuck.
"""

import itertools
import os
import re
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from nri_numamem.cli import main as command
from nri_numamem.daemon import liveness
from nri_numamem.engine.admission import records
from nri_numamem.engine.core.events import CreateContainer, Event, Synchronize
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record

_R = TypeVar("_R", bound=Record)

AFFLICTIONS: dict[str, Callable[[], object]] = {
    "sleeps": lambda: time.sleep(60),
    "backtracks": lambda: re.match(r"(a+)+$", "a" * 64 + "b"),
    "loops": lambda: [None for number in itertools.count() if number < 0],
    # These neither release the interpreter's lock nor check for signals.
    "aborts": os.abort,
    "hogs": lambda: all(itertools.repeat(1)),
}
healthy = Engine.decide


def afflicted(engine: Engine, event: Event) -> Plan:
    plan = healthy(engine, event)
    if isinstance(event, CreateContainer):
        AFFLICTIONS.get(event.container.name, bool)()
    elif isinstance(event, Synchronize) and "sleeps" in {c.name for c in event.containers}:
        time.sleep(60)
    return plan


def failing(name: str, record: Callable[..., _R]) -> Callable[..., _R]:
    def fail(*about: object) -> _R:
        if any(name == getattr(one, "name", getattr(one, "key", ("", ""))[1]) for one in about):
            raise RuntimeError("what a bug")
        return record(*about)

    return fail


def deadlocked(name: str, record: Callable[..., _R]) -> Callable[..., _R]:
    def wait(*about: object) -> _R:
        while any(name == getattr(one, "name", "") for one in about):
            time.sleep(60)
        return record(*about)

    return wait


records.placed_as = failing("forgotten", deadlocked("deadlocked", records.placed_as))
records.ended = failing("undead", records.ended)
liveness.STUCK_S = float(sys.argv.pop(1))
liveness.SAMPLE_S = 0.3
Engine.decide = afflicted  # type: ignore[method-assign, assignment]
sys.exit(command.main())
