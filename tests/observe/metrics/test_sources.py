"""The sources of the metrics: every plugin makes them, also one that serves no metrics."""

import subprocess
import sys

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Committed, Engine
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.metrics.counters import Meter
from nri_numamem.observe.metrics.sources import SILENT_S, Sources, health


def test_they_need_no_library() -> None:
    script = (
        "import sys, nri_numamem.observe.metrics.sources as s; s.Sources; "
        "print([n for n in sys.modules if n.startswith(('prom', 'http'))])"
    )
    found = subprocess.run((sys.executable, "-c", script), capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


CONTEXT = Context.of(Machine((NumaNode(0, 1 << 30),)), Policy())
COMMITTED = Engine(CONTEXT).committed


def sources(meter: Meter, committed: Committed | None = COMMITTED, standby: str = "") -> Sources:
    return Sources(
        meter, lambda: committed, lambda: 0, lambda: None, dict, lambda: 100.0, lambda: standby
    )


def test_a_plugin_that_serves_has_no_problem() -> None:
    meter = Meter()
    meter.registered()
    assert health(sources(meter))[0]
    assert health(sources(meter)) == (True, "ok")
    meter.ticked_at_s = 100.0 - SILENT_S
    assert health(sources(meter))[0]


def test_a_plugin_without_a_connection() -> None:
    meter = Meter()
    expected = "the plugin is not registered with the runtime"
    assert health(sources(meter)) == (False, expected)
    meter.registered()
    meter.ticked_at_s = 0.0
    meter.disconnected()
    assert health(sources(meter)) == (False, expected)
    meter.registered()  # the loop of this connection has not run its timer yet
    assert health(sources(meter))[0]


def test_a_loop_that_is_silent() -> None:
    meter = Meter()
    meter.registered()
    meter.ticked_at_s = 87.0
    assert health(sources(meter)) == (False, "the event loop has been busy or stuck for 13 s")


def test_a_configuration_that_cannot_be_used() -> None:
    meter = Meter()
    meter.registered()
    assert health(sources(meter, None)) == (False, "the configuration cannot be used; see the log")


def test_a_standby_needs_neither_a_connection_nor_an_engine() -> None:
    meter = Meter()
    waiting = sources(meter, None, "pid 7 serves")
    assert health(waiting)[0]
    assert health(waiting) == (True, "standby: pid 7 serves")
    meter.ticked_at_s = 87.0
    assert health(waiting) == (False, "the event loop has been busy or stuck for 13 s")
