"""The options of where the plugin and its host are found, with one meaning in all commands.

A plugin as a service reads ``/etc/nri-numamem/config.yaml``; a launched one gets the text of a file
in ``/etc/nri/conf.d`` from the runtime. Commands read the one that exists, the first if both do.
"""

import argparse
from dataclasses import fields
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG, load_chosen, load_file
from nri_numamem.config.settings import STATE_FILE, Settings
from nri_numamem.host.roots import HostRoots

LAUNCHED_CONFIGS = Path("/etc/nri/conf.d")

_ROOTS = tuple(field.name for field in fields(HostRoots))


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--config``; plugin_settings() reads the file."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the plugin's configuration (default: {DEFAULT_CONFIG}, or the file of a launched "
        f"plugin in {LAUNCHED_CONFIGS}, if it exists)",
    )


def add_state_file_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--state-file``; state_file_of() has its default."""
    parser.add_argument(
        "--state-file",
        metavar="FILE",
        help=f"the plugin's state file (default: that of its settings, else {STATE_FILE})",
    )


def add_root_arguments(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add ``--sysfs-root``, ``--proc-root`` and ``--cgroup-root``, or only the named ones."""
    roots = parser.add_argument_group("host filesystem roots")
    for name in names or _ROOTS:
        roots.add_argument(
            f"--{name}-root",
            type=Path,
            default=getattr(HostRoots(), name),
            metavar="DIRECTORY",
            help="(default: %(default)s)",
        )


def roots_of(args: argparse.Namespace) -> HostRoots:
    """Return the directories; a command without one of the options uses the host's own."""
    given = {name: getattr(args, f"{name}_root", None) for name in _ROOTS}
    return HostRoots(**{name: path for name, path in given.items() if path is not None})


def config_files(root: Path = Path("/")) -> list[Path]:
    """Return the plugin's configuration files that exist, as paths on the host below `root`.

    NRI reads NN-NAME.conf, or NAME.conf, for a launched plugin.
    """
    launched = sorted(path.name for path in _below(root, LAUNCHED_CONFIGS).glob("*numamem*.conf"))
    found = [DEFAULT_CONFIG] if _below(root, DEFAULT_CONFIG).exists() else []
    return [*found, *(LAUNCHED_CONFIGS / name for name in launched)]


def plugin_settings(path: Path | None) -> tuple[Settings, str]:
    """Return the plugin's settings and their file; raise UsageError if they cannot be used."""
    path = next(iter(config_files()), None) if path is None else path
    return load_chosen(path), _origin_of(path)


def _origin_of(path: Path | None) -> str:
    return "no file: defaults" if path is None else str(path)


def state_file_of(given: str | None, root: Path = Path("/")) -> Path:
    """Return the option's file, or else that of the plugin's settings on the host below `root`.

    Settings that cannot be used name none: these commands must work beside them. Raises UsageError
    if there is no state file.
    """
    name = given
    if name is None:
        try:
            files = [load_file(_below(root, path)) for path in config_files(root)[:1]]
        except UsageError:
            files = []
        name = files[0].state_file if files else None
    if name == "":
        problem = "the setting stateFile is empty, so the plugin leaves nothing for this command"
        raise UsageError(f"{problem}; set it, or name an older file with --state-file")
    return Path(STATE_FILE if name is None else name)


def _below(root: Path, path: Path) -> Path:
    return root / str(path).lstrip("/")
