"""The options for the plugin's files, its host and its Node, with the same meaning in all commands.

A plugin as a service reads ``/etc/nri-numamem/config.yaml``; a launched one gets the text of a file
in ``/etc/nri/conf.d`` from the runtime. Commands read the file that exists, the first if both do.
"""

import argparse
import os
import re
from dataclasses import fields
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.config.load import DEFAULT_CONFIG, load_file, load_text
from nri_numamem.config.settings import STATE_FILE, Settings
from nri_numamem.host.roots import HostRoots

LAUNCHED_CONFIGS = Path("/etc/nri/conf.d")

# A DNS subdomain, as the name of a Node.
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_ROOT = Path("/")
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
        type=_file,
        metavar="FILE",
        help=f"the plugin's state file (default: that of its settings, else {STATE_FILE})",
    )


def _file(text: str) -> str:
    if text and not Path(text).name:
        raise argparse.ArgumentTypeError(f"{text!r} is not the path of a file")
    return text


def add_host_argument(
    parser: argparse.ArgumentParser,
    text: str = "where the host's file system is mounted, such as /host",
) -> None:
    """Add ``--root``; the files of the other options are on the host below it."""
    parser.add_argument(
        "--root",
        type=Path,
        default=_ROOT,
        metavar="DIRECTORY",
        help=f"{text} (default: %(default)s)",
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
    """Return the directories; a command without one of the options uses the host's own.

    A directory that is not named is below ``--root``, if the command has it.
    """
    root, own = getattr(args, "root", _ROOT), HostRoots()
    given = {name: getattr(args, f"{name}_root", getattr(own, name)) for name in _ROOTS}
    return HostRoots(
        **{
            name: below(root, path) if path == getattr(own, name) else path
            for name, path in given.items()
        }
    )


def config_files(root: Path = _ROOT) -> list[Path]:
    """Return the plugin's configuration files that exist, as paths on the host below `root`.

    NRI reads NN-NAME.conf, or NAME.conf, for a launched plugin.
    """
    launched = sorted(path.name for path in below(root, LAUNCHED_CONFIGS).glob("*numamem*.conf"))
    found = [DEFAULT_CONFIG] if below(root, DEFAULT_CONFIG).exists() else []
    return [*found, *(LAUNCHED_CONFIGS / name for name in launched)]


def plugin_settings(path: Path | None, root: Path = _ROOT) -> tuple[Settings, str]:
    """Return the plugin's settings and their file; raise UsageError if they cannot be used.

    The path is one on the host below `root`.
    """
    path = next(iter(config_files(root)), None) if path is None else path
    if path is None:
        return load_text("", "no configuration"), "no file: defaults"
    return load_file(below(root, path), root=root), str(path)


def state_file_of(given: str | None, root: Path = _ROOT) -> Path:
    """Return the option's file, or else that of the plugin's settings, as a path on the host.

    The settings are those of the host below `root`. If they cannot be used, the default applies:
    these commands must work nevertheless. Raises UsageError if there is no state file.
    """
    name = given
    if name is None:
        try:
            files = [load_file(below(root, path), root=root) for path in config_files(root)[:1]]
        except UsageError:
            files = []
        name = (files[0] if files else Settings()).state_file_or_default
    if name == "":
        problem = "the setting stateFile is empty, so the plugin writes no file for this command"
        raise UsageError(f"{problem}; set it, or name an older file with --state-file")
    return Path(name)


def add_node_name_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option; node_name_of() has its default."""
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        help="name of the Node object (default: NODE_NAME of the environment, else the host name "
        "in lower case, as the kubelet's)",
    )


def node_name_of(given: str | None) -> str:
    """Return the name; raise UsageError if it is not valid."""
    name = given or os.environ.get("NODE_NAME") or os.uname().nodename.lower()
    if not _NODE_NAME.fullmatch(name):
        problem = f"{name!r:.80} is not a valid Node name"
        raise UsageError(f"--node-name: {problem}; give the name that `kubectl get nodes` shows")
    return name
