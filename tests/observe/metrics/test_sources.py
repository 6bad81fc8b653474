"""The sources of the metrics: every plugin makes them, also one that serves no metrics."""

import subprocess
import sys


def test_they_need_no_library() -> None:
    script = (
        "import sys, nri_numamem.observe.metrics.sources as s; s.Sources; "
        "print([n for n in sys.modules if n.startswith(('prom', 'http', 'structlog'))])"
    )
    found = subprocess.run((sys.executable, "-c", script), capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"
