"""The plugin with afflictions: what a container is called is what happens when it is created.

One called "forgotten" gets its nodes, and then a bug keeps it off the books; at the end of one
called "undead" there is such a bug.
Run like nri-numamem, or launched by a runtime; the first argument is the watchdog's patience in
seconds.
"""

import itertools
import os
import re
import sys
import time
from collections.abc import Callable

from nri_numamem.cli import main as command
from nri_numamem.cli import watchdog
from nri_numamem.engine import records
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import CreateContainer, Event, Synchronize
from nri_numamem.engine.plan import Plan, Record

AFFLICTIONS: dict[str, Callable[[], object]] = {
    "sleeps": lambda: time.sleep(60),
    "backtracks": lambda: re.match(r"(a+)+$", "a" * 64 + "b"),
    "loops": lambda: [None for number in itertools.count() if number < 0],
    # Neither gives the interpreter's lock away nor looks for signals.
    "aborts": os.abort,
    "hogs": lambda: all(itertools.repeat(1)),
}
healthy = Engine.handle


def afflicted(engine: Engine, event: Event) -> Plan:
    plan = healthy(engine, event)
    if isinstance(event, CreateContainer):
        AFFLICTIONS.get(event.container.name, bool)()
    elif isinstance(event, Synchronize) and "sleeps" in {c.name for c in event.containers}:
        time.sleep(60)
    return plan


def failing(name: str, record: Callable[..., Record]) -> Callable[..., Record]:
    def fail(*about: object) -> Record:
        if any(name == getattr(one, "name", getattr(one, "key", ("", ""))[1]) for one in about):
            raise RuntimeError("what a bug")
        return record(*about)

    return fail


records.admitted = failing("forgotten", records.admitted)
records.ended = failing("undead", records.ended)
watchdog.STALL_S = float(sys.argv.pop(1))
Engine.handle = afflicted  # type: ignore[method-assign, assignment]
sys.exit(command.main())
