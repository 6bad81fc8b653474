"""The plugin with an engine that misbehaves on demand, to stage what a sound one never does.

Started as a program in the plugin's place. Containers whose name begins with a word of TRICKS make
the engine do it: "raise", "sleep-1.5" (seconds), "hang" (for ever, and no other thread runs),
"reply-70000" (bytes of the adjustment).
"""

import ctypes
import sys
import time
from collections.abc import Callable

from nri_numamem.cli.main import main
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import CreateContainer, Event
from nri_numamem.engine.plan import Adjustment, Plan


def _raise(_argument: str) -> Plan:
    raise ZeroDivisionError("sabotage")


def _sleep(argument: str) -> Plan:
    time.sleep(float(argument))
    return Plan(Adjustment("1"))


def _hang(_argument: str) -> Plan:
    # A mutex that is locked twice waits whatever signals come; PyDLL keeps the interpreter's lock.
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
    return Plan()


def _reply(argument: str) -> Plan:
    return Plan(Adjustment("0" * int(argument)))


TRICKS: dict[str, Callable[[str], Plan]] = {
    "raise": _raise,
    "sleep": _sleep,
    "hang": _hang,
    "reply": _reply,
}


def _sabotage() -> None:
    sound = Engine.handle

    def handle(self: Engine, event: Event) -> Plan:
        if isinstance(event, CreateContainer):
            word, _, argument = event.container.name.partition("-")
            if word in TRICKS:
                return TRICKS[word](argument)
        return sound(self, event)

    Engine.handle = handle  # type: ignore[method-assign]


if __name__ == "__main__":
    _sabotage()
    sys.exit(main())
