"""The problems that /healthz shows: why containers that start now are not placed."""

from nri_numamem.observe.metrics.sources import Sources

# The event loop shows every 2 s that it is alive; a process beside it ends it after some 12 s.
SILENT_S = 10.0


def problems(sources: Sources) -> list[str]:
    """Return why containers are not placed, one line each; empty if they are."""
    meter = sources.meter
    found: list[str] = []
    if sources.committed() is None:
        found.append("the configuration cannot be used; see the log")
    if not meter.is_registered:
        found.append("the plugin is not registered with the runtime")
    elif meter.ticked_at_s is not None:
        silent_s = sources.monotonic_s() - meter.ticked_at_s
        if silent_s > SILENT_S:
            found.append(f"the event loop has been busy or stuck for {silent_s:.0f} s")
    return found
