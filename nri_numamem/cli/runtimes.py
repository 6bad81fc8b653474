"""The settings of NRI in the configuration files of containerd and CRI-O, and a file to enable it.

containerd 1.7 replaces the whole table of a plugin by that of an imported file, and newer releases
do not start if an imported file has a later version than config.toml. So the file that enables NRI
repeats the version and the other settings of the table. config.toml itself is never changed.

Source: containerd pkg/nri, its CRI plugin's configuration and cmd/containerd/server/config (merge
of imports); CRI-O's crio.conf(5); NRI pkg/adaptation, discoverPlugins.
"""

import json
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.cli.host_files import Host, UnreadableError, at
from nri_numamem.config.errors import UsageError

CONTAINERD = "/etc/containerd/config.toml"
CRIO = "/etc/crio/crio.conf"
CRIO_DROP_INS = "/etc/crio/crio.conf.d"
NRI_TABLE = "io.containerd.nri.v1.nri"
# The CRI plugin's table in versions 2 and 3 of containerd's configuration.
_CRI_TABLES = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
_SOCKET = "/var/run/nri/nri.sock"
_PLUGIN_PATH = "/opt/nri/plugins"
_CONFIG_PATH = "/etc/nri/conf.d"
_PLUGIN_NAME = re.compile(r"\d\d-.+", re.ASCII)
_CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
_LISTENING = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix

MARK = "# Written by nri-numamem install --enable-nri; removed by nri-numamem uninstall.\n"
# Read last: files are read in the order of their names.
_CONTAINERD_NAME = "99-nri-numamem.toml"
_CRIO_FILE = f"{CRIO_DROP_INS}/99-nri-numamem.conf"


@dataclass(frozen=True, slots=True)
class Runtime:
    """One configured runtime."""

    name: str
    file: str
    nri: Mapping[str, object]
    """Its settings of NRI, with containerd's keys."""
    hides_hugepages: bool = False
    """Whether it drops the hugepage limits of containers (containerd's default)."""
    enabled: bool | None = None
    """Whether NRI is enabled; None if that depends on the version."""
    has_cdi: bool | None = None
    """Whether the runtime adds CDI devices; None if that depends on the version."""
    cdi_directories: tuple[str, ...] = _CDI_DIRECTORIES
    """Where it reads CDI specifications."""

    @property
    def service(self) -> str:
        """The systemd unit, without its suffix."""
        return "containerd" if self.name == "containerd" else "crio"

    @property
    def socket(self) -> str:
        """The path of the NRI socket."""
        return str(self.nri.get("socket_path", _SOCKET))

    @property
    def plugin_path(self) -> str:
        """The directory of plugins that the runtime launches."""
        return str(self.nri.get("plugin_path", _PLUGIN_PATH))

    @property
    def config_path(self) -> str:
        """The directory of their configuration files."""
        return str(self.nri.get("plugin_config_path", _CONFIG_PATH))


def runtimes(host: Host) -> tuple[Runtime, ...]:
    """Return the configured runtimes; raise UnreadableError."""
    return tuple(filter(None, (_containerd(host), _crio(host))))


def imported_files(host: Host, document: object) -> Iterator[str]:
    """Yield the files that containerd's configuration imports, in containerd's order."""
    for pattern in _imports_of(document):
        directory, _, name = pattern.rpartition("/")
        if "*" not in name:
            yield pattern
            continue
        expression = re.compile(".*".join(map(re.escape, name.split("*"))))
        yield from (f"{directory}/{x}" for x in host.names(directory) if expression.fullmatch(x))


def _imports_of(document: object) -> list[str]:
    """Return the absolute paths and patterns that containerd's configuration imports."""
    found = at(document, "imports")
    patterns = map(str, found if isinstance(found, list) else [])
    base = CONTAINERD.rpartition("/")[0]
    return [pattern if pattern.startswith("/") else f"{base}/{pattern}" for pattern in patterns]


def _containerd(host: Host) -> Runtime | None:
    main = host.toml(CONTAINERD)
    if main is None:
        return None
    imported = (host.toml(name) for name in imported_files(host, main))
    documents = [main, *(document for document in imported if document is not None)]
    nri: dict[str, object] = {}
    for document in documents:
        table = at(document, "plugins", NRI_TABLE)
        nri |= table if isinstance(table, Mapping) else {}
    disabled = nri.get("disable")
    cri: dict[str, object] = {}
    for document in documents:
        for name in _CRI_TABLES:
            table = at(document, "plugins", name)
            cri |= table if isinstance(table, Mapping) else {}
    hides = all(
        at(document, "plugins", table, "disable_hugetlb_controller") is not False
        for document in documents
        for table in _CRI_TABLES
    )
    has_cdi = cri.get("enable_cdi")
    return Runtime(
        "containerd",
        CONTAINERD,
        nri,
        hides_hugepages=hides,
        enabled=None if disabled is None else not disabled,
        has_cdi=None if has_cdi is None else bool(has_cdi),
        cdi_directories=_texts(cri.get("cdi_spec_dirs")) or _CDI_DIRECTORIES,
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _crio(host: Host) -> Runtime | None:
    found: dict[str, object] = {}
    files = [CRIO, *(f"{CRIO_DROP_INS}/{name}" for name in host.names(CRIO_DROP_INS))]
    documents = {file: document for file in files if (document := host.toml(file)) is not None}
    for document in documents.values():
        nri = at(document, "crio", "nri")
        found |= nri if isinstance(nri, Mapping) else {}
    if not documents:
        return None
    names = {
        "nri_listen": "socket_path",
        "nri_plugin_dir": "plugin_path",
        "nri_plugin_config_dir": "plugin_config_path",
        "nri_plugin_registration_timeout": "plugin_registration_timeout",
        "nri_plugin_request_timeout": "plugin_request_timeout",
    }
    nri = {names[key]: value for key, value in found.items() if key in names}
    enabled = found.get("enable_nri")
    directories = [
        at(document, "crio", "runtime", "cdi_spec_dirs") for document in documents.values()
    ]
    return Runtime(
        "CRI-O",
        list(documents)[-1],
        nri,
        enabled=None if enabled is None else bool(enabled),
        has_cdi=True,
        cdi_directories=next(filter(None, map(_texts, reversed(directories))), _CDI_DIRECTORIES),
    )


def is_listening(host: Host, runtime: Runtime) -> bool | None:
    """Return whether a process listens on the NRI socket; None if that cannot be read."""
    try:
        text = host.read("/proc/net/unix")
    except UnreadableError:
        return None
    if text is None:
        return None
    rows = (line.split() for line in text.splitlines()[1:])
    listening = {row[7] for row in rows if len(row) > 7 and int(row[3], 16) & _LISTENING}
    return not listening.isdisjoint({runtime.socket, runtime.socket.replace("/var/run/", "/run/")})


def executables(host: Host, directory: str) -> list[str]:
    """Return the names that NRI takes for plugins: links, and executable files.

    Raises UnreadableError.
    """

    def is_plugin(name: str) -> bool:
        mode = (host.path(directory) / name).lstat().st_mode
        return not stat.S_ISDIR(mode) and bool(mode & 0o111)

    return list(filter(is_plugin, host.names(directory)))


def is_plugin_name(name: str) -> bool:
    """Return whether NRI accepts an executable of this name; a wrong one keeps it from starting."""
    return _PLUGIN_NAME.fullmatch(name) is not None


def instructions(runtime: Runtime) -> Iterator[str]:
    """Yield lines that describe how to enable NRI.

    A table must not occur twice in the configuration.
    """
    if runtime.enabled is False:
        yield f"{runtime.file} disables NRI. Run this again with --enable-nri, or change it:"
    else:
        version = "containerd 2.0" if runtime.name == "containerd" else "CRI-O 1.30"
        yield f"NRI is off by default before {version}. To enable it, run this again with"
        verb = "set" if runtime.nri else "add"
        yield f"--enable-nri, or {verb} this in {runtime.file}:"
    yield from (f"  {line}" for line in _snippet(runtime).splitlines())


def _snippet(runtime: Runtime) -> str:
    """Return the lines that enable NRI in the runtime's configuration."""
    if runtime.name == "containerd":
        return f'[plugins."{NRI_TABLE}"]\n  disable = false\n'
    return "[crio.nri]\nenable_nri = true\n"


def drop_in(host: Host, runtime: Runtime) -> tuple[str, str]:
    """Return path and text of a file that enables NRI.

    Raises UsageError if the runtime would not read it.
    """
    if runtime.name != "containerd":
        return _CRIO_FILE, MARK + _snippet(runtime)
    document = host.toml(CONTAINERD)
    directory = next(iter(_import_directories(document)), None)
    if directory is None:
        remedy = 'add a line such as imports = ["/etc/containerd/conf.d/*.toml"] before its first '
        remedy += "table, or enable NRI there"
        raise UsageError(f"{CONTAINERD}: imports no directory; {remedy}")
    version = at(document, "version")
    first = f"version = {version}\n" if isinstance(version, int) else ""
    table = {**runtime.nri, "disable": False}
    lines = "".join(f"  {key} = {_toml(value)}\n" for key, value in table.items())
    return (
        f"{directory}/{_CONTAINERD_NAME}",
        f'{MARK}{first}[plugins."{NRI_TABLE}"]\n{lines}',
    )


def drop_ins(host: Host) -> list[str]:
    """Return the paths of the files that `drop_in` wrote."""
    document = host.toml(CONTAINERD)
    paths = [f"{directory}/{_CONTAINERD_NAME}" for directory in _import_directories(document)]
    return [path for path in (*paths, _CRIO_FILE) if (host.read(path) or "").startswith(MARK)]


def _import_directories(document: object) -> list[str]:
    """Return the directories from which containerd imports all files *.toml."""
    patterns = (pattern.rpartition("/") for pattern in _imports_of(document))
    return [folder for folder, _, name in patterns if name in ("*", "*.toml") and "*" not in folder]


def _toml(value: object) -> str:
    """Return a value of a TOML document on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
