"""What of the plugin is on a host: read once, before a plan is made."""

import filecmp
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.cli.host_arguments import state_file_of
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation import nri, unit
from nri_numamem.cli.installation.program import COPY, NAME, Program, is_elf, is_program
from nri_numamem.cli.runtimes import (
    CONTAINERD,
    CRIO,
    Runtime,
    executables,
    is_listening,
    is_plugin_name,
    runtimes,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.observe.files import lock_file_of

_NAMES = {"containerd": "containerd", "crio": "CRI-O"}
"""Name on the command line -> name of a Runtime."""
RUNTIMES = tuple(_NAMES)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or link of the plugin in the runtime's plugin directory."""

    path: str
    target: str | None
    """Of a link."""

    @property
    def idx(self) -> str:
        """The two digits of its name."""
        return Path(self.path).name[:2]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is there; paths are on the host, without its root."""

    runtime: Runtime
    entries: tuple[Entry, ...] = ()
    other_programs: tuple[str, ...] = ()
    """Files with a name of the plugin's that are another program."""
    bad_names: tuple[str, ...] = ()
    """Executables in the plugin directory with which the runtime does not start."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of the plugin's configuration files that exist."""
    unit: str | None = None
    """Text of the unit in /etc."""
    packaged_unit: str | None = None
    """The unit that a package of the distribution brought."""
    is_enabled: bool = False
    is_exporter_enabled: bool = False
    has_copy: bool = False
    """Whether a copy of a single file for the service is there."""
    identical: frozenset[str] = frozenset()
    """Files of the plugin with the same content as the program."""
    drop_ins: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of files that enable NRI, and that install wrote."""
    is_listening: bool = False
    """Whether the runtime listens on its NRI socket."""
    holder: str | None = None
    """The instance that runs, as it describes itself."""


def chosen_runtime(name: str | None, host: Host) -> Runtime:
    """Return a runtime by its name on the command line, or else the only one that is configured.

    Without any configuration file it is containerd, with its defaults. Raises UsageError.
    """
    try:
        found = runtimes(host)
    except UnreadableError as error:
        raise UsageError(f"{error}; correct the file, or run as root") from error
    if name is not None:
        found = tuple(runtime for runtime in found if runtime.name == _NAMES[name])
    elif len(found) > 1:
        files = " and ".join(runtime.file for runtime in found)
        raise UsageError(f"{files} exist; name the runtime with --runtime")
    if found:
        return found[0]
    file = CRIO if name == "crio" else CONTAINERD
    return Runtime(_NAMES[name or "containerd"], file, {}, hides_hugepages=False)


def read_facts(host: Host, runtime: Runtime, program: Program | None = None) -> Facts:
    """Read everything, beside the program to install; raise UsageError."""
    directory = runtime.plugin_path

    def exists(path: str) -> bool:
        return host.path(path).exists()

    try:
        names = executables(host, directory)
        own = [name for name in names if is_own_name(name)]
        entries = [_entry(host, f"{directory}/{name}") for name in own]
        configs = _configs(host, runtime.config_path)
        return Facts(
            runtime,
            entries=tuple(entry for entry in entries if _is_own(host, entry)),
            other_programs=tuple(entry.path for entry in entries if not _is_own(host, entry)),
            bad_names=tuple(f"{directory}/{name}" for name in names if not is_plugin_name(name)),
            configs={path: host.read(path) or "" for path in configs},
            unit=host.read(unit.PATH),
            packaged_unit=next(filter(exists, unit.PACKAGED), None),
            is_enabled=unit.is_enabled(host),
            is_exporter_enabled=unit.is_enabled(host, unit.EXPORTER_WANTED),
            has_copy=is_elf(host.path(COPY)),
            identical=frozenset(_identical(host, program, [entry.path for entry in entries])),
            drop_ins={path: host.read(path) or "" for path in nri.drop_ins(host)},
            is_listening=bool(is_listening(host, runtime)),
            holder=running_instance(host),
        )
    except UnreadableError as error:
        raise UsageError(f"{error}; run as root") from error


def _identical(host: Host, program: Program | None, entries: list[str]) -> Iterator[str]:
    """Yield the copies that have the content of the program."""
    if program is None:
        return
    for path in (*entries, COPY):
        file = host.entry(path)
        is_copy = file.is_file() and not file.is_symlink()
        if is_copy and filecmp.cmp(file, program.file, shallow=False):
            yield path


def is_own_name(name: str) -> bool:
    """Return whether a name in the plugin directory is that of this plugin."""
    return is_plugin_name(name) and name[3:] == NAME


def _entry(host: Host, path: str) -> Entry:
    file = host.entry(path)
    return Entry(path, str(file.readlink()) if file.is_symlink() else None)


def _is_own(host: Host, entry: Entry) -> bool:
    """Return whether an entry starts the plugin; a link may have lost its target."""
    if entry.target is not None:
        return Path(entry.target).name.startswith(NAME)
    return is_program(host.path(entry.path))


def _configs(host: Host, directory: str) -> list[str]:
    """Return the configuration files of both ways of starting, that of the service first."""
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
