"""The plugin with faults in its engine, which names of containers trigger.

A test starts this program instead of the plugin. The fault is the first word of a container's name:
"raise", "sleep-1.5" (seconds), "hang" (forever, with the interpreter's lock), "reply-70000" (bytes
of cpuset.mems).
"""

import ctypes
import sys
import time
from collections.abc import Callable

from nri_numamem.cli.main import main
from nri_numamem.engine.core.events import CreateContainer, Event
from nri_numamem.engine.core.plan import Adjustment, Plan
from nri_numamem.engine.engine import Engine


def _raise(_argument: str) -> Plan:
    raise ZeroDivisionError("a fault on purpose")


def _sleep(argument: str) -> Plan:
    time.sleep(float(argument))
    return Plan(Adjustment("1"))


def _hang(_argument: str) -> Plan:
    # Locking a mutex twice blocks despite signals; PyDLL keeps the interpreter's lock.
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
    return Plan()


def _reply(argument: str) -> Plan:
    return Plan(Adjustment("0" * int(argument)))


FAULTS: dict[str, Callable[[str], Plan]] = {
    "raise": _raise,
    "sleep": _sleep,
    "hang": _hang,
    "reply": _reply,
}


def _install_faults() -> None:
    original = Engine.decide

    def decide(self: Engine, event: Event) -> Plan:
        if isinstance(event, CreateContainer):
            word, _, argument = event.container.name.partition("-")
            if word in FAULTS:
                return FAULTS[word](argument)
        return original(self, event)

    Engine.decide = decide  # type: ignore[method-assign]


if __name__ == "__main__":
    _install_faults()
    sys.exit(main())
