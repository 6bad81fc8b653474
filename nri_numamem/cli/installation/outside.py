"""The files of the plugin that a purge leaves, because the configuration puts them elsewhere."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import Facts
from nri_numamem.cli.installation.plan import PURGED
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import load_file


def files_outside(facts: Facts, host: Host) -> list[str]:
    """Return one line for each file that exists and is in no directory that a purge removes.

    A configuration that cannot be used names none. Read before the configuration is removed.
    """
    lines = dict.fromkeys(line for config in facts.configs for line in _files_of(config, host))
    return list(lines)


def _files_of(config: str, host: Host) -> Iterator[str]:
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
        if name and not _is_purged(name) and host.path(name).exists():
            beside = ", and the plugin's files beside it" if key == "stateFile" else ""
            yield f"{name}{beside} ({key} in {config})"


def _is_purged(name: str) -> bool:
    parents = {str(parent) for parent in PurePosixPath(name).parents}
    return not parents.isdisjoint(PURGED)
