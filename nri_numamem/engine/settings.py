"""The plugin's settings as one immutable value, and their form as a parsed document.

``settings_from_mapping`` turns what a YAML or JSON parser returned into ``Settings``; every
complaint names the place in the document and what to write instead. ``settings_to_mapping`` is
its inverse. Keys that the kubelet has too carry the kubelet's names, values and meaning.

This module knows the shape of the settings, and no machine: whether a NUMA node exists or a
reservation adds up is judged by ``memorymanager.reserved``. Reading files is the command line's.
"""

import re
from collections.abc import Mapping
from dataclasses import field

from nri_numamem.engine.settings_values import (
    SettingsError,
    SettingsPath,
    read_address,
    read_amount_text,
    read_choice,
    read_go_bool,
    read_integer,
    read_mapping,
    read_quantity,
    show,
)
from nri_numamem.memorymanager.nodeset import NODE_ID_LIMIT
from nri_numamem.memorymanager.quantity import (
    MEMORY,
    format_quantity,
    hugepages_page_size,
    hugepages_resource,
    is_memory_resource,
)
from nri_numamem.values import valueclass

__all__ = [
    "MemoryReservation",
    "Settings",
    "SettingsError",
    "settings_from_mapping",
    "settings_to_mapping",
]

# The first value of each is the default. Ours pins memory (that is what the plugin is for), so
# it is not the kubelet's "None".
STATIC = "Static"
MEMORY_MANAGER_POLICIES = (STATIC, "None")
TOPOLOGY_MANAGER_POLICIES = ("best-effort", "none", "restricted", "single-numa-node")
TOPOLOGY_MANAGER_SCOPES = ("container", "pod")
UNSATISFIABLE_ACTIONS = ("Reject", "RunUnpinned")
LOG_LEVELS = ("info", "debug", "warning", "error")
LOG_FORMATS = ("auto", "json", "console")

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"
# The kubelet refuses less than 8 (KEP-4622); it counts in a Go int, ours is any count of nodes.
MAX_ALLOWABLE_LEAST = 8
MAX_ALLOWABLE_MOST = 2**31 - 1

# evictionHard takes "10%" as well as an amount.
_PERCENTAGE = re.compile(r"\d{1,3}(\.\d{1,9})?%", re.ASCII)
# Named as the kubelet's, in a directory of our own.
STATE_FILE = "/var/lib/nri-numamem/memory_manager_state"

# PATH_MAX of Linux, the closing NUL included.
_PATH_LIMIT = 4096

_KEYS = (
    "memoryManagerPolicy",
    "reservedMemory",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "kubeReserved",
    "systemReserved",
    "evictionHard",
    "kubeletConfigFile",
    "stateFile",
    "metricsAddress",
    "whenUnsatisfiable",
    "logLevel",
    "logFile",
    "logFormat",
)


@valueclass(frozen=True, slots=True)
class MemoryReservation:
    """One entry of `reservedMemory`: what the host keeps of a NUMA node."""

    numa_node: int
    limits: Mapping[str, int]
    """Resource name (`memory`, `hugepages-2Mi`) -> bytes."""


@valueclass(frozen=True, slots=True)
class Settings:
    """All settings, with the defaults of an empty document."""

    memory_manager_policy: str = MEMORY_MANAGER_POLICIES[0]
    topology_manager_policy: str = TOPOLOGY_MANAGER_POLICIES[0]
    topology_manager_scope: str = TOPOLOGY_MANAGER_SCOPES[0]
    prefer_closest_numa_nodes: bool = True
    max_allowable_numa_nodes: int | None = None
    """Accepted from a kubelet's configuration, without effect; see `notes`."""
    reserved_memory: tuple[MemoryReservation, ...] = ()
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    """Resource name -> quantity, as written."""
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    """Resource name -> quantity, as written."""
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    """Eviction signal -> quantity or percentage, as written."""
    kubelet_config_file: str | None = None
    """Absolute path of the kubelet's configuration; gives the keys that are left out here."""
    kubelet_memory_manager_policy: str = "None"
    """What that file says of the kubelet's own manager; found, not set."""
    state_file: str | None = None
    """Absolute path of what outlives the process; "" is none, None leaves it to the program."""
    metrics_address: str = ""
    """HOST:PORT to serve metrics at; "" serves none."""
    when_unsatisfiable: str = UNSATISFIABLE_ACTIONS[0]
    log_level: str = LOG_LEVELS[0]
    log_file: str | None = None
    """Absolute path; None leaves the choice of the sink to the log set-up."""
    log_format: str = LOG_FORMATS[0]

    @property
    def is_managed_twice(self) -> bool:
        """Tell whether the kubelet manages memory too, by its configuration file."""
        return (self.memory_manager_policy, self.kubelet_memory_manager_policy) == (STATIC, STATIC)

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each setting that was accepted and has no effect, or a doubtful one."""
        notes: list[str] = []
        if self.max_allowable_numa_nodes is not None:
            place = f"topologyManagerPolicyOptions.{MAX_ALLOWABLE}"
            notes.append(f"{place} has no effect: the number of NUMA nodes is not limited")
        if self.is_managed_twice:
            notes.append(
                "both memory managers are active: the kubelet's memoryManagerPolicy is Static, so "
                "what it sets is only entered in the books; set it to None in "
                f"{self.kubelet_config_file or 'its configuration'}"
            )
        return tuple(notes)


def settings_from_mapping(document: object) -> Settings:
    """Return the settings of a parsed document; None (an empty file) gives the defaults.

    A key without a value (null) keeps its default, as in Kubernetes. Raises SettingsError for the
    first key, type or value that cannot be used.
    """
    _refuse_kubelet_configuration(document)
    top = read_mapping((), document, _KEYS)

    def choice(key: str, allowed: tuple[str, ...]) -> str:
        return read_choice((key,), top.get(key), allowed)

    path = ("topologyManagerPolicyOptions",)
    options = read_mapping(path, top.get(path[0]), (PREFER_CLOSEST, MAX_ALLOWABLE))
    return Settings(
        memory_manager_policy=choice("memoryManagerPolicy", MEMORY_MANAGER_POLICIES),
        topology_manager_policy=choice("topologyManagerPolicy", TOPOLOGY_MANAGER_POLICIES),
        topology_manager_scope=choice("topologyManagerScope", TOPOLOGY_MANAGER_SCOPES),
        prefer_closest_numa_nodes=read_go_bool(
            (*path, PREFER_CLOSEST), options.get(PREFER_CLOSEST), default=True
        ),
        max_allowable_numa_nodes=_max_allowable(path, options.get(MAX_ALLOWABLE)),
        reserved_memory=_reservations(top.get("reservedMemory")),
        kube_reserved=_amounts("kubeReserved", top.get("kubeReserved")),
        system_reserved=_amounts("systemReserved", top.get("systemReserved")),
        eviction_hard=_amounts("evictionHard", top.get("evictionHard")),
        kubelet_config_file=_path("kubeletConfigFile", top, "/var/lib/kubelet/config.yaml"),
        state_file=_state_file(top),
        metrics_address=read_address(("metricsAddress",), top.get("metricsAddress")),
        when_unsatisfiable=choice("whenUnsatisfiable", UNSATISFIABLE_ACTIONS),
        log_level=choice("logLevel", LOG_LEVELS),
        log_file=_path("logFile", top, "/var/log/nri-numamem.log"),
        log_format=choice("logFormat", LOG_FORMATS),
    )


def settings_to_mapping(settings: Settings) -> dict[str, object]:
    """Return the document that settings_from_mapping() reads back to an equal value.

    Everything that has a value is written out, defaults too: it shows what is in force.
    """
    options = {PREFER_CLOSEST: str(settings.prefer_closest_numa_nodes).lower()}
    if settings.max_allowable_numa_nodes is not None:
        options[MAX_ALLOWABLE] = str(settings.max_allowable_numa_nodes)
    reserved = [
        {
            "numaNode": entry.numa_node,
            "limits": {name: format_quantity(size) for name, size in entry.limits.items()},
        }
        for entry in settings.reserved_memory
    ]
    document: dict[str, object] = {
        "memoryManagerPolicy": settings.memory_manager_policy,
        "reservedMemory": reserved,
        "topologyManagerPolicy": settings.topology_manager_policy,
        "topologyManagerScope": settings.topology_manager_scope,
        "topologyManagerPolicyOptions": options,
        "kubeReserved": dict(settings.kube_reserved),
        "systemReserved": dict(settings.system_reserved),
        "evictionHard": dict(settings.eviction_hard),
        "kubeletConfigFile": settings.kubelet_config_file,
        "stateFile": settings.state_file,
        "metricsAddress": settings.metrics_address,
        "whenUnsatisfiable": settings.when_unsatisfiable,
        "logLevel": settings.log_level,
        "logFile": settings.log_file,
        "logFormat": settings.log_format,
    }
    return {key: value for key, value in document.items() if value not in (None, {}, [])}


def _refuse_kubelet_configuration(document: object) -> None:
    for key in ("apiVersion", "kind"):
        if isinstance(document, Mapping) and key in document:
            problem = "this looks like a whole KubeletConfiguration"
            remedy = f"name it as kubeletConfigFile, or keep only the plugin's: {', '.join(_KEYS)}"
            raise SettingsError((key,), problem, remedy)


def _max_allowable(path: SettingsPath, value: object) -> int | None:
    if value is None:
        return None
    least, most = MAX_ALLOWABLE_LEAST, MAX_ALLOWABLE_MOST
    return read_integer((*path, MAX_ALLOWABLE), value, least=least, most=most)


def _reservations(value: object) -> tuple[MemoryReservation, ...]:
    path = ("reservedMemory",)
    if value is None:
        return ()
    if not isinstance(value, list):
        remedy = "write a list such as [{numaNode: 0, limits: {memory: 1Gi}}]"
        raise SettingsError(path, f"{show(value)} where a list belongs", remedy)
    return tuple(_reservation((*path, index), entry) for index, entry in enumerate(value))


def _reservation(path: SettingsPath, value: object) -> MemoryReservation:
    entry = read_mapping(path, value, ("numaNode", "limits"))
    node_id = read_integer(
        (*path, "numaNode"), entry.get("numaNode"), least=0, most=NODE_ID_LIMIT - 1
    )
    limits: dict[str, int] = {}
    limits_path = (*path, "limits")
    for name, quantity in read_mapping(limits_path, entry.get("limits")).items():
        here = (*limits_path, name)
        resource = _resource(here, name)
        if resource in limits:
            raise SettingsError(here, f"{resource} is given twice", "keep one of the two")
        limits[resource] = read_quantity(here, quantity)
    if not limits:
        remedy = "write what to reserve, such as {memory: 1Gi}, or remove the entry"
        raise SettingsError(limits_path, "nothing is reserved", remedy)
    return MemoryReservation(node_id, limits)


def _resource(path: SettingsPath, name: str) -> str:
    """Return the canonical spelling, so that hugepages-2048Ki means the pool hugepages-2Mi."""
    if name == MEMORY:
        return name
    try:
        return hugepages_resource(hugepages_page_size(name))
    except ValueError as error:
        remedy = "use memory or a hugepage resource such as hugepages-2Mi"
        raise SettingsError(path, str(error), remedy) from error


def _amounts(key: str, value: object) -> dict[str, str]:
    """Return amounts as text; those of memory must be readable, since they are added up later."""
    amounts: dict[str, str] = {}
    for name, amount in read_mapping((key,), value).items():
        path = (key, name)
        amounts[name] = text = read_amount_text(path, amount)
        is_percentage = key == "evictionHard" and _PERCENTAGE.fullmatch(text) is not None
        if not is_percentage and (is_memory_resource(name) or name == "memory.available"):
            read_quantity(path, amount)
    return amounts


def _state_file(top: Mapping[str, object]) -> str | None:
    is_none = top.get("stateFile") == ""
    return "" if is_none else _path("stateFile", top, f'{STATE_FILE}, or "" for none')


def _path(key: str, top: Mapping[str, object], example: str) -> str | None:
    value = top.get(key)
    if value is None:
        return None
    is_path = isinstance(value, str) and value.startswith("/") and "\0" not in value
    if not is_path or len(str(value)) >= _PATH_LIMIT:
        remedy = f"write one such as {example}"
        raise SettingsError((key,), f"{show(value)} is not an absolute path", remedy)
    return str(value)
