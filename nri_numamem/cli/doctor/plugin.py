"""Checks of the plugin itself: its running instance, its state file, its libraries."""

import time
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.host import Host, UnreadableError
from nri_numamem.cli.render.duration import duration
from nri_numamem.config.settings import STATE_FILE, Settings
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.engine.snapshot import SnapshotError, restore


def check_instance(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check whether an instance holds the lock, and the state that it writes."""
    file = STATE_FILE if settings is None or settings.state_file is None else settings.state_file
    if not file:
        text = "stateFile is empty: no lock prevents a second instance"
        yield Finding("instance", Verdict.WARN, text, "set stateFile")
        return
    try:
        holder = find_holder(host.path(f"{file}.lock"))
    except OSError as error:
        yield Finding("instance", Verdict.UNKNOWN, f"{file}.lock: {error.strerror}", "run as root")
        return
    if holder is None:
        remedy = "start it (see the README, Install); its log says why it ended"
        text = f"no instance holds {file}.lock: the plugin does not run"
        yield Finding("instance", Verdict.FAIL, text, remedy)
    else:
        yield Finding("instance", Verdict.OK, f"one instance holds {file}.lock: {holder.text}")
    yield _check_state(host, file)


def _check_state(host: Host, name: str) -> Finding:
    try:
        text = host.read(name)
    except UnreadableError as error:
        return Finding("state_file", Verdict.UNKNOWN, str(error), "run as root")
    if text is None:
        text = f"{name} does not exist: nothing was placed yet"
        return Finding("state_file", Verdict.OK, text)
    try:
        restore(text.encode())
    except SnapshotError as error:
        remedy = "the next start of the plugin renames it and computes the state anew"
        return Finding("state_file", Verdict.WARN, f"{name}: {error}", remedy)
    age_s = max(0.0, time.time() - host.path(name).stat().st_mtime)
    return Finding("state_file", Verdict.OK, f"{name} was last changed {duration(age_s)} ago")
