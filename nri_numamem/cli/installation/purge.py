"""Removes configuration, state and logs. What is removed cannot be brought back.

So everything is read before the first deletion, also those of an uninstall, and an error of one
deletion does not stop the others.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation import systemd
from nri_numamem.cli.installation.facts import COPY, Facts
from nri_numamem.cli.installation.steps import REMEDIES, Remove, Step
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG, load_file
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.engine.core.text import escape

_OWN = (
    STATE_FILE.rpartition("/")[0],
    "/var/log/nri-numamem",
    systemd.OVERRIDES,
    systemd.EXPORTER_OVERRIDES,
    str(DEFAULT_CONFIG.parent),
)
_COPIES = COPY.rpartition("/")[0]
_SHARED = (
    "/opt/nri/plugins",
    "/opt/nri",
    "/etc/nri/conf.d",
    "/etc/nri",
    _COPIES,
    _COPIES.rpartition("/")[0],
)


@dataclass(frozen=True, slots=True)
class Purge:
    """What is removed; paths on the host."""

    own: tuple[str, ...]
    """Files, directories with their contents, and links, but not what a link leads to."""
    shared: tuple[str, ...]
    """Directories for all NRI plugins in which nothing is left."""
    kept: tuple[str, ...]
    """One line for each file of the plugin that is elsewhere."""


def plan_purge(facts: Facts, steps: Sequence[Step], host: Host) -> Purge:
    """Return what is removed after the steps of an uninstall, which are still to be executed.

    Raises UsageError if something cannot be read or removed.
    """
    own = [path for path in (*facts.configs, *_OWN) if os.path.lexists(host.entry(path))]
    for path in own:
        if not os.access(host.entry(path).parent, os.W_OK):
            remedy = "run as root, on a writable file system; nothing was changed"
            raise UsageError(f"{path}: cannot be removed; {remedy}")
    try:
        names = {path: host.names(path) for path in (*_OWN, *_SHARED)}
    except UnreadableError as error:
        raise UsageError(f"{error}; run as root; nothing was changed") from error
    gone = {*own, *(step.path for step in steps if isinstance(step, Remove))}
    shared = []
    for path in _SHARED:
        place = host.entry(path)
        is_directory = place.is_dir() and not place.is_symlink()
        if is_directory and all(f"{path}/{name}" in gone for name in names[path]):
            shared.append(path)
            gone.add(path)
    return Purge(tuple(own), tuple(shared), tuple(_kept(facts, host)))


def purge(plan: Purge, host: Host, *, is_dry_run: bool) -> list[str]:
    """Remove what is planned and print a line for each; return what remains, for people."""
    remaining = []
    for path in (*plan.own, *plan.shared):
        place = host.entry(path)
        try:
            if is_dry_run:
                pass
            elif path in plan.shared:
                place.rmdir()
            elif place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        except OSError as error:
            remedy = REMEDIES.get(error.errno or 0, error.strerror or str(error))
            remaining.append(f"remove {path}    (not done completely: {remedy})")
        else:
            print(f"{'would remove' if is_dry_run else 'removed'} {path}")
    for line in plan.kept:
        print(f"kept {line}; remove it yourself")
    return remaining


def _kept(facts: Facts, host: Host) -> list[str]:
    """Return a line for each target of a link, and each file that the configuration puts elsewhere.

    A configuration that cannot be used names none.
    """
    lines = [
        f"{escape(str(host.entry(path).readlink()))}, to which {path} was a link"
        for path in _OWN
        if host.entry(path).is_symlink() and host.path(path).exists()
    ]
    named = dict.fromkeys(line for config in facts.configs for line in _files_of(config, host))
    return [*lines, *named]


def _files_of(config: str, host: Host) -> Iterator[str]:
    """Yield a line for each file outside of what a purge removes that a configuration names."""
    try:
        settings = load_file(host.path(config), root=host.root)
    except UsageError:
        return
    named = {
        "stateFile": settings.state_file,
        "logFile": settings.log_file,
        "metricsTextfile": settings.metrics_textfile,
    }
    for key, name in named.items():
        parents = {str(parent) for parent in PurePosixPath(name or "").parents}
        if name and parents.isdisjoint(_OWN) and host.path(name).exists():
            beside = ", and the plugin's files beside it" if key == "stateFile" else ""
            yield f"{name}{beside} ({key} in {config})"
