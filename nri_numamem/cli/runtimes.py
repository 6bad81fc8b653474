"""The settings of NRI in the configuration files of containerd and CRI-O.

Source: containerd pkg/nri, its CRI plugin's configuration and cmd/containerd/server/config (merge
of imports); CRI-O's crio.conf(5); NRI pkg/adaptation, discoverPlugins.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.cli.host_files import Host, UnreadableError, at

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
_LISTENING = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix


@dataclass(frozen=True, slots=True)
class Runtime:
    """One configured runtime."""

    name: str
    file: str
    nri: Mapping[str, object]
    """Its settings of NRI, with containerd's keys."""
    hides_hugepages: bool
    """Whether it drops the hugepage limits of containers (containerd's default)."""
    enabled: bool | None = None
    """Whether NRI is enabled; None if that depends on the version."""

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
    for pattern in imports_of(document):
        directory, _, name = pattern.rpartition("/")
        if "*" not in name:
            yield pattern
            continue
        expression = re.compile(".*".join(map(re.escape, name.split("*"))))
        yield from (f"{directory}/{x}" for x in host.names(directory) if expression.fullmatch(x))


def imports_of(document: object) -> list[str]:
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
    hides = all(
        at(document, "plugins", table, "disable_hugetlb_controller") is not False
        for document in documents
        for table in _CRI_TABLES
    )
    enabled = None if disabled is None else not disabled
    return Runtime("containerd", CONTAINERD, nri, hides_hugepages=hides, enabled=enabled)


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
    file = list(documents)[-1]
    return Runtime(
        "CRI-O",
        file,
        nri,
        hides_hugepages=False,
        enabled=None if enabled is None else bool(enabled),
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
    """Return the names that NRI takes for plugins: links, and other files that are executable.

    Raises UnreadableError.
    """

    def is_plugin(name: str) -> bool:
        mode = (host.path(directory) / name).lstat().st_mode
        return not stat.S_ISDIR(mode) and bool(mode & 0o111)

    return list(filter(is_plugin, host.names(directory)))


def is_plugin_name(name: str) -> bool:
    """Return whether NRI accepts an executable of this name; with another it does not start."""
    return _PLUGIN_NAME.fullmatch(name) is not None
