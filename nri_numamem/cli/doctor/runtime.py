"""Checks of the container runtime: NRI, its time limits, its plugin directory.

Nothing connects to the NRI socket: a connection that does not register makes the runtime wait.
Source: containerd pkg/nri and its CRI plugin's configuration; CRI-O's crio.conf(5); NRI
pkg/adaptation, discoverPlugins.
"""

import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.host import Host, UnreadableError, at

_CONTAINERD = "/etc/containerd/config.toml"
_CRIO = "/etc/crio/crio.conf"
_CRIO_DROP_INS = "/etc/crio/crio.conf.d"
_NRI = "io.containerd.nri.v1.nri"
# The CRI plugin's table in versions 2 and 3 of containerd's configuration.
_CRI_TABLES = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
_SOCKET = "/var/run/nri/nri.sock"
_PLUGIN_PATH = "/opt/nri/plugins"
_PLUGIN_NAME = re.compile(r"\d\d-.+", re.ASCII)
_LISTENING = 0x10000  # __SO_ACCEPTCON in the flags of /proc/net/unix
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
# NRI's defaults; a reply within less is late on a busy host.
_LEAST_S = {"plugin_registration_timeout": 5.0, "plugin_request_timeout": 2.0}


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
    def socket(self) -> str:
        """The path of the NRI socket."""
        return str(self.nri.get("socket_path", _SOCKET))

    @property
    def plugin_path(self) -> str:
        """The directory of plugins that the runtime launches."""
        return str(self.nri.get("plugin_path", _PLUGIN_PATH))


def runtimes(host: Host) -> tuple[Runtime, ...]:
    """Return the configured runtimes; raise UnreadableError."""
    return tuple(filter(None, (_containerd(host), _crio(host))))


def _containerd(host: Host) -> Runtime | None:
    document = host.toml(_CONTAINERD)
    if document is None:
        return None
    nri = at(document, "plugins", _NRI)
    nri = nri if isinstance(nri, Mapping) else {}
    disabled = nri.get("disable")
    hides = all(
        at(document, "plugins", table, "disable_hugetlb_controller") is not False
        for table in _CRI_TABLES
    )
    enabled = None if disabled is None else not disabled
    return Runtime("containerd", _CONTAINERD, nri, hides_hugepages=hides, enabled=enabled)


def _crio(host: Host) -> Runtime | None:
    found: dict[str, object] = {}
    files = [_CRIO, *(f"{_CRIO_DROP_INS}/{name}" for name in host.names(_CRIO_DROP_INS))]
    documents = {file: document for file in files if (document := host.toml(file)) is not None}
    for document in documents.values():
        nri = at(document, "crio", "nri")
        found |= nri if isinstance(nri, Mapping) else {}
    if not documents:
        return None
    names = {
        "nri_listen": "socket_path",
        "nri_plugin_dir": "plugin_path",
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


def check_runtimes(host: Host) -> Iterator[Finding]:
    """Check the configuration of each runtime, its socket and its plugin directory."""
    try:
        found = runtimes(host)
    except UnreadableError as error:
        remedy = "run as root, and correct the file if the runtime refuses it too"
        yield Finding("runtime", Verdict.UNKNOWN, str(error), remedy)
        return
    if not found:
        text = f"neither {_CONTAINERD} nor {_CRIO} exists; the runtime's defaults are assumed"
        yield Finding("runtime", Verdict.OK, text)
        found = (Runtime("the runtime", "its configuration", {}, hides_hugepages=False),)
    for runtime in found:
        yield _check_socket(host, runtime)
        yield from _check_timeouts(runtime)
        if runtime.hides_hugepages:
            yield _hugepage_limits(runtime)
        yield from check_plugin_directory(host, runtime.plugin_path)


def _check_socket(host: Host, runtime: Runtime) -> Finding:
    if runtime.enabled is False:
        remedy = "enable it there (see the README, Install), and restart the runtime"
        return Finding("nri", Verdict.FAIL, f"{runtime.file} disables NRI", remedy)
    listening = _listening(host)
    if listening is None:
        text = f"/proc/net/unix cannot be read, so {runtime.socket} was not looked for"
        return Finding("nri", Verdict.UNKNOWN, text, "run as root on the host")
    names = {runtime.socket, runtime.socket.replace("/var/run/", "/run/")}
    if names & listening:
        return Finding("nri", Verdict.OK, f"{runtime.name} listens on {runtime.socket}")
    remedy = "start the runtime, and enable NRI in its configuration (off by default before "
    remedy += "containerd 2.0 and CRI-O 1.30)"
    return Finding("nri", Verdict.FAIL, f"nothing listens on {runtime.socket}", remedy)


def _listening(host: Host) -> set[str] | None:
    try:
        text = host.read("/proc/net/unix")
    except UnreadableError:
        return None
    if text is None:
        return None
    rows = (line.split() for line in text.splitlines()[1:])
    return {row[7] for row in rows if len(row) > 7 and int(row[3], 16) & _LISTENING}


def _check_timeouts(runtime: Runtime) -> Iterator[Finding]:
    for key, least_s in _LEAST_S.items():
        value = runtime.nri.get(key)
        match = _DURATION.fullmatch(str(value)) if value is not None else None
        if match and float(match[1]) * _SECONDS[match[2]] < least_s:
            text = f"{runtime.file}: {key} is {value}, below the default of {least_s:.0f}s"
            remedy = "a plugin that answers later is disconnected; use the default"
            yield Finding("nri_timeouts", Verdict.WARN, text, remedy)


def _hugepage_limits(runtime: Runtime) -> Finding:
    text = (
        f"{runtime.name} hides the hugepage limits of containers, so the plugin uses the pod's "
        "sum; disable_hugetlb_controller = false shows each container's"
    )
    return Finding("hugepage_limits", Verdict.OK, text)


def check_plugin_directory(host: Host, directory: str) -> Iterator[Finding]:
    """Check the names of launched plugins: one bad name keeps the runtime from starting."""
    try:
        executables = list(_executables(host, directory))
    except UnreadableError as error:
        yield Finding("plugin_directory", Verdict.UNKNOWN, str(error), "run as root")
        return
    bad = [name for name in executables if not _PLUGIN_NAME.fullmatch(name)]
    for name in bad:
        text = f"{directory}/{name} is executable and its name does not begin with two digits and -"
        remedy = "the runtime does not start with it: rename or move it before the next restart"
        yield Finding("plugin_directory", Verdict.FAIL, text, remedy)
    yield from _check_copies(host, directory, executables)
    if not bad:
        listed = ", ".join(executables) or "no plugin"
        yield Finding("plugin_directory", Verdict.OK, f"{directory}: {listed}")


def _check_copies(host: Host, directory: str, executables: Iterable[str]) -> Iterator[Finding]:
    launched = [f"{directory}/{name}" for name in executables if "numamem" in name]
    unit = "/etc/systemd/system/multi-user.target.wants/nri-numamem.service"
    starts = [*launched, *(["the service nri-numamem"] if host.path(unit).is_symlink() else [])]
    if not starts:
        text = f"no link in {directory}, and the service nri-numamem is not enabled"
        yield Finding("instances", Verdict.WARN, text, "start it one way; see the README, Install")
    elif len(starts) > 1:
        text = f"the plugin is started in {len(starts)} ways: {', '.join(starts)}"
        remedy = "keep one: remove the link, or systemctl disable --now nri-numamem"
        yield Finding("instances", Verdict.FAIL, text, remedy)
    elif launched and not _exists(host, launched[0]):
        text = f"{launched[0]} is a link to a file that does not exist"
        remedy = "install the program again, or remove the link"
        yield Finding("instances", Verdict.FAIL, text, remedy)
    else:
        yield Finding("instances", Verdict.OK, f"started as {starts[0]}")


def _exists(host: Host, name: str) -> bool:
    """Return whether a file, or the target of a link below the host's root, exists."""
    path = host.path(name)
    if path.is_symlink() and path.readlink().is_absolute():
        path = host.path(str(path.readlink()))
    return path.exists()


def _executables(host: Host, directory: str) -> Iterator[str]:
    """Yield what NRI takes for plugins: links, and other files that are executable."""
    for name in host.names(directory):
        mode = (host.path(directory) / name).lstat().st_mode
        if not stat.S_ISDIR(mode) and mode & 0o111:
            yield name
