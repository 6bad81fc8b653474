"""The heartbeat that another process reads."""

from nri_numamem.daemon.heartbeat import Heartbeat
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.observe.metrics.counters import Meter


def test_it_beats_only_inside_the_context() -> None:
    status = SupervisorStatus()
    heartbeat = Heartbeat(status, Meter())
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
    meter = Meter()
    with Heartbeat(None, meter) as heartbeat:
        assert list(heartbeat.run(5.0)) == []
    assert meter.ticked_at_s == 5.0
