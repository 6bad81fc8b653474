"""Waits for the end of another instance, where a service manager started this process.

Where the runtime launches the plugin and a service is enabled as well, the service would end, and
the service manager would start it again every two seconds, for ever. So it waits, with one record,
and serves the runtime when the other instance has ended.
"""

from collections.abc import Callable

from nri_numamem.daemon.external import pause
from nri_numamem.daemon.instance import AlreadyRunningError
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.system import SignalSource, System
from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName

# Between two attempts, doubling. An attempt opens and locks one file.
PAUSE_MIN_S = 2.0
PAUSE_MAX_S = 60.0


def start_when_alone(
    start: Callable[[], None], service: Service, system: System, signals: SignalSource
) -> bool:
    """Call `start` until it does not raise AlreadyRunningError; False after a stopping signal."""
    pause_s = PAUSE_MIN_S
    is_logged = False
    while True:
        try:
            start()
        except AlreadyRunningError as error:
            if not is_logged:
                is_logged = True
                service.emit(Record(EventName.NOT_STARTED, {"error": str(error)}))
                service.notifier.ready(f"waiting: {error}")
            if pause(service, system, signals, pause_s):
                return False
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
        else:
            return True
