"""What /healthz shows: why containers that start now are not placed, or that this is a standby."""

from nri_numamem.observe.metrics.sources import Sources

# The event loop shows every 2 s that it is alive; a process beside it ends it after some 12 s.
SILENT_S = 10.0


def problems(sources: Sources) -> list[str]:
    """Return why this instance does not do its work, one line each; empty if it does.

    A standby does its work while it waits: the instance that holds the lock serves the runtime.
    """
    meter = sources.meter
    found: list[str] = []
    is_standby = bool(sources.standby())
    if not is_standby:
        if sources.committed() is None:
            found.append("the configuration cannot be used; see the log")
        if not meter.is_registered:
            found.append("the plugin is not registered with the runtime")
    if (is_standby or meter.is_registered) and meter.ticked_at_s is not None:
        silent_s = sources.monotonic_s() - meter.ticked_at_s
        if silent_s > SILENT_S:
            found.append(f"the event loop has been busy or stuck for {silent_s:.0f} s")
    return found


def summary(sources: Sources) -> str:
    """Return the text when there are no problems: "ok", or which instance serves."""
    cause = sources.standby()
    return f"standby: {cause}" if cause else "ok"
