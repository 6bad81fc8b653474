"""The plugin's files on a host, read once before a plan is made.

The runtime or systemd starts a file, the program. An entry script of a Python package needs the
packages beside it, so it is linked, never copied; the link also follows upgrades. So is a single
executable file below /usr or /opt, where a package puts it. Elsewhere, such as in a directory of
downloads, it may be removed, or be on a file system that is mounted late, so it is copied.
"""

import argparse
import filecmp
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.cli.host_arguments import add_host_argument, state_file_of
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.runtimes import (
    CONTAINERD,
    CRIO,
    Runtime,
    drop_ins,
    executables,
    is_listening,
    is_plugin_name,
    runtimes,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.observe.files import lock_file_of
from nri_numamem.version import is_single_file

NAME = "nri-numamem"
# The place of the virtual environment in the README.
COPY = f"/opt/{NAME}/bin/{NAME}"
"""Where a copy of a single file for the service is."""
RUNTIMES = {"containerd": "containerd", "crio": "CRI-O"}
"""Name on the command line -> name of a Runtime."""

_PERMANENT = ("/usr/", "/opt/")
_ELF = b"\x7fELF"
_SCRIPT_BYTES = 4096
_REMEDY = "name the installed program with --program"


@dataclass(frozen=True, slots=True)
class Program:
    """A file that starts the plugin."""

    path: str
    """On the host; empty if it is only outside of the root directory."""
    file: Path
    """Where it can be read."""
    is_single_file: bool

    @property
    def is_permanent(self) -> bool:
        """Whether links and units may name its path."""
        return bool(self.path) and (not self.is_single_file or self.path.startswith(_PERMANENT))


@dataclass(frozen=True, slots=True)
class Facts:
    """What is on the host; paths do not begin with its root directory."""

    runtime: Runtime
    entries: Mapping[str, str | None] = field(default_factory=dict)
    """Files and links of the plugin in the runtime's plugin directory, with a link's target."""
    other_programs: tuple[str, ...] = ()
    """Files with the plugin's name that are another program."""
    bad_names: tuple[str, ...] = ()
    """Executables in the plugin directory that keep the runtime from starting."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of the plugin's configuration files that exist."""
    unit: str | None = None
    """Text of the unit in /etc."""
    packaged_unit: str | None = None
    """The path of the unit that a package installed."""
    is_enabled: bool = False
    """Whether systemd starts the service; `is_active` whether it runs it."""
    is_active: bool = False
    is_exporter_enabled: bool = False
    has_systemd: bool = False
    """Whether systemd runs on the host."""
    has_copy: bool = False
    """Whether a copy of a single file for the service is there."""
    has_claim_hook: bool = False
    """Whether the hook program of claims is where `install` writes it."""
    identical: frozenset[str] = frozenset()
    """Files of the plugin with the same content as the program."""
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of the files that `install` wrote to enable NRI."""
    is_listening: bool = False
    """Whether the runtime listens on its NRI socket."""
    holder: str | None = None
    """The running instance's description of itself."""


def add_installation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--runtime``, ``--root`` and ``--dry-run``, which `install` and `uninstall` have."""
    parser.add_argument(
        "--runtime",
        choices=tuple(RUNTIMES),
        help="the container runtime (default: the one that is configured)",
    )
    text = "root directory of the host, such as of an image; systemctl is used for / only"
    add_host_argument(parser, text)
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")


def chosen_runtime(name: str | None, host: Host) -> Runtime:
    """Return the runtime that the command line names, or else the only configured one.

    Without any configuration file it is containerd with its defaults. Raises UsageError.
    """
    try:
        found = runtimes(host)
    except UnreadableError as error:
        raise UsageError(f"{error}; correct the file, or run as root") from error
    if name is not None:
        found = tuple(runtime for runtime in found if runtime.name == RUNTIMES[name])
    elif len(found) > 1:
        files = " and ".join(runtime.file for runtime in found)
        raise UsageError(f"{files} exist; name the runtime with --runtime")
    if found:
        return found[0]
    file = CRIO if name == "crio" else CONTAINERD
    return Runtime(RUNTIMES[name or "containerd"], file, {})


def find_program(given: str | None, host: Host) -> Program:
    """Return the program that `given` names on the host, or else the running one.

    Raises UsageError if it does not exist on the host, or cannot be started.
    """
    path = running_program() if given is None else Path(os.path.normpath(Path(given).absolute()))
    file = host.path(str(path))
    if given is None and not file.exists() and is_elf(path):
        return Program("", path, is_single_file=True)
    if not file.exists():
        raise UsageError(f"{file}: no such program; {_REMEDY}")
    if not os.access(file, os.X_OK):
        raise UsageError(f"{file}: not executable; chmod it, or {_REMEDY}")
    return Program(str(path), file, is_elf(file))


def running_program() -> Path:
    """Return the file that started this process; raise UsageError if there is none."""
    if is_single_file():
        return Path(sys.executable).resolve()
    script = Path(sys.argv[0])
    if script.suffix == ".py":  # python -m nri_numamem
        script = Path(sys.executable).with_name(NAME)
    if not os.access(script, os.X_OK):
        raise UsageError(f"{script}: no such program; {_REMEDY}")
    return script.resolve()


def is_elf(path: Path) -> bool:
    """Return whether a file is an executable and not a script."""
    return _head(path).startswith(_ELF)


def is_program(path: Path) -> bool:
    """Return whether a file is the plugin: a single file, or an entry script of the package."""
    head = _head(path)
    return head.startswith(_ELF) or (head.startswith(b"#!") and b"nri_numamem" in head)


def _head(path: Path) -> bytes:
    """Return the beginning of a regular file; nothing for other or unreadable files."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b""
        with path.open("rb") as file:
            return file.read(_SCRIPT_BYTES)
    except OSError:
        return b""


def read_facts(host: Host, runtime: Runtime, program: Program | None = None) -> Facts:
    """Read the facts of a host; `program` is what is to be installed. Raise UsageError."""
    directory = runtime.plugin_path
    try:
        names = executables(host, directory)
        paths = [f"{directory}/{name}" for name in names if is_own_name(name)]
        entries = {path: _link_target(host, path) for path in paths}
        own = {path: target for path, target in entries.items() if _is_own(host, path, target)}
        return Facts(
            runtime,
            entries=own,
            other_programs=tuple(path for path in paths if path not in own),
            bad_names=tuple(f"{directory}/{name}" for name in names if not is_plugin_name(name)),
            configs={path: host.read(path) or "" for path in _configs(host, runtime.config_path)},
            unit=host.read(systemd.PATH),
            packaged_unit=next((p for p in systemd.PACKAGED if host.path(p).exists()), None),
            is_enabled=systemd.is_enabled(host),
            is_active=systemd.is_active(host),
            is_exporter_enabled=systemd.is_enabled(host, systemd.EXPORTER_WANTED),
            has_systemd=systemd.is_running(host),
            has_copy=is_elf(host.path(COPY)),
            has_claim_hook=is_elf(host.path(hook_program.PATH)),
            identical=frozenset(_identical(host, program, (*paths, COPY))),
            drop_ins={path: host.read(path) or "" for path in drop_ins(host)},
            is_listening=bool(is_listening(host, runtime)),
            holder=running_instance(host),
        )
    except UnreadableError as error:
        raise UsageError(f"{error}; run as root") from error


def is_own_name(name: str) -> bool:
    """Return whether a name in the plugin directory is this plugin's."""
    return is_plugin_name(name) and name[3:] == NAME


def _link_target(host: Host, path: str) -> str | None:
    file = host.entry(path)
    return str(file.readlink()) if file.is_symlink() else None


def _is_own(host: Host, path: str, target: str | None) -> bool:
    """Return whether an entry starts the plugin; a link may have lost its target."""
    return is_program(host.path(path)) if target is None else Path(target).name.startswith(NAME)


def _identical(host: Host, program: Program | None, paths: Sequence[str]) -> Iterator[str]:
    """Yield the files that are copies of the program."""
    for path in paths:
        file = host.entry(path)
        is_copy = file.is_file() and not file.is_symlink()
        if program is not None and is_copy and filecmp.cmp(file, program.file, shallow=False):
            yield path


def _configs(host: Host, directory: str) -> list[str]:
    """Return the configuration files of the service and of a launched plugin, in this order."""
    service = [str(DEFAULT_CONFIG)] if host.path(str(DEFAULT_CONFIG)).exists() else []
    names = [name for name in host.names(directory) if name.endswith(f"{NAME}.conf")]
    own = [name for name in names if name == f"{NAME}.conf" or is_own_name(name[: -len(".conf")])]
    return [*service, *(f"{directory}/{name}" for name in own)]


def running_instance(host: Host, state_file: str | None = None) -> str | None:
    """Return how the instance that holds the lock describes itself; None without one."""
    try:
        holder = find_holder(host.path(str(lock_file_of(state_file_of(state_file, host.root)))))
    except (OSError, UsageError):
        return None
    return None if holder is None else holder.text
