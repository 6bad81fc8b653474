"""The heartbeat that another process reads."""

from nri_numamem.daemon.heartbeat import Heartbeat
from nri_numamem.daemon.supervisor_status import SupervisorStatus


def test_it_beats_only_inside_the_context() -> None:
    status = SupervisorStatus()
    heartbeat = Heartbeat(status)
    seen = [status.beats]
    with heartbeat:
        seen.append(status.beats)
        heartbeat.beat()
        seen.append(status.beats)
    seen.append(status.beats)
    with heartbeat:  # the next connection
        seen.append(status.beats)
    status.close()
    assert seen == [0, 1, 2, 0, 3]


def test_without_another_process_it_does_nothing() -> None:
    with Heartbeat(None) as heartbeat:
        heartbeat.beat()
