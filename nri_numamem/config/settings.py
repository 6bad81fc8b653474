"""The plugin's settings as one immutable value, and their form as a parsed document.

``settings_from_mapping`` turns a document that a YAML or JSON parser returned into ``Settings``;
each error names the place in the document and the remedy. ``settings_to_mapping`` is its inverse.
Keys that the kubelet has too have the kubelet's names, values and meaning.

This module checks types and ranges. ``memorymanager.reserved_memory`` checks settings against the
machine, such as whether a NUMA node exists. ``config.load`` reads files; ``config.reference``
describes each key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nri_numamem.config.burstable_pods import (
    BURSTABLE_PODS,
    burstable_pods_document,
    read_burstable_pods,
)
from nri_numamem.config.memory_nodes import (
    MEMORY_NODES,
    memory_nodes_document,
    read_memory_nodes,
)
from nri_numamem.config.memory_policies import (
    MEMORY_POLICY,
    memory_policies_document,
    read_memory_policies,
)
from nri_numamem.config.network_hints import NETWORK_HINTS, NETWORK_HINTS_CHOICES
from nri_numamem.config.paths import STATE_FILE, read_path, read_state_file, read_textfile
from nri_numamem.config.pod_strategies import (
    POD_STRATEGIES,
    pod_strategies_document,
    read_pod_strategies,
)
from nri_numamem.config.reservations import (
    read_amounts,
    read_reservations,
    reservations_document,
)
from nri_numamem.config.residency import RESIDENCY, read_residency, residency_document
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_address,
    read_choice,
    read_go_bool,
    read_integer,
    read_mapping,
)
from nri_numamem.engine.features.residency.setting import OFF, Residency
from nri_numamem.kubelet import config_file as kubelet
from nri_numamem.kubelet.config_file import MAX_ALLOWABLE, OPTIONS, PREFER_CLOSEST
from nri_numamem.memorymanager.burstable import BurstablePods
from nri_numamem.memorymanager.reserved_memory import Reservation
from nri_numamem.numa.cpu_following import CpuFollowing
from nri_numamem.numa.memory_nodes import MemoryNodes
from nri_numamem.numa.memory_policy import MemoryPolicies
from nri_numamem.numa.pod_strategies import PodStrategies
from nri_numamem.numa.preferences import Strategy

__all__ = [
    "STATE_FILE",
    "Settings",
    "SettingsError",
    "settings_from_mapping",
    "settings_to_mapping",
]

# The first value of each is the default. The plugin exists to pin memory, so its default policy
# differs from the kubelet's "None".
STATIC = "Static"
MEMORY_MANAGER_POLICIES = (STATIC, "None")
TOPOLOGY_MANAGER_POLICIES = ("best-effort", "none", "restricted", "single-numa-node")
TOPOLOGY_MANAGER_SCOPES = ("container", "pod")
PLACEMENT_STRATEGIES = tuple(strategy.value for strategy in Strategy)
CPU_FOLLOWINGS = tuple(following.value for following in CpuFollowing)
UNSATISFIABLE_ACTIONS = ("Reject", "RunUnpinned")
LOG_LEVELS = ("info", "debug", "warning", "error")
LOG_FORMATS = ("auto", "json", "console")

# The kubelet rejects less than 8 (KEP-4622). Its type is a Go int; no machine has 2^31 nodes.
MAX_ALLOWABLE_LEAST = 8
MAX_ALLOWABLE_MOST = 2**31 - 1

KEYS = (
    kubelet.POLICY_KEY,
    *kubelet.KEYS,
    "kubeletConfigFile",
    "stateFile",
    "metricsAddress",
    "metricsTextfile",
    "whenUnsatisfiable",
    "failOnTimeout",
    MEMORY_NODES,
    "placementStrategy",
    POD_STRATEGIES,
    "cpuFollowsMemory",
    MEMORY_POLICY,
    NETWORK_HINTS,
    BURSTABLE_PODS,
    RESIDENCY,
    "logLevel",
    "logFile",
    "logFormat",
)
"""All keys, those of the kubelet first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, with the defaults of an empty document."""

    memory_manager_policy: str = MEMORY_MANAGER_POLICIES[0]
    topology_manager_policy: str = TOPOLOGY_MANAGER_POLICIES[0]
    topology_manager_scope: str = TOPOLOGY_MANAGER_SCOPES[0]
    prefer_closest_numa_nodes: bool = True
    max_allowable_numa_nodes: int | None = None
    """Accepted from a kubelet's configuration, without effect; see `notes`."""
    reserved_memory: tuple[Reservation, ...] = ()
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    """Resource name -> quantity, as written."""
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    """Resource name -> quantity, as written."""
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    """Eviction signal -> quantity or percentage, as written."""
    kubelet_config_file: str | None = None
    """Absolute path of the kubelet's configuration, from which missing keys are copied."""
    kubelet_memory_manager_policy: str = "None"
    """memoryManagerPolicy in the kubelet's configuration file; not a key of the settings."""
    kubelet_cpu_manager_policy: str = "none"
    """cpuManagerPolicy there; not a key of the settings."""
    kubelet_reserved_cpus: str = ""
    """reservedSystemCPUs there, as written; not a key of the settings."""
    state_file: str | None = None
    """Absolute path of the state kept across restarts; "" disables it, None is the program's
    default."""
    metrics_address: str = ""
    """HOST:PORT or unix://PATH of the metrics endpoint; "" disables it."""
    metrics_textfile: str | None = None
    """Absolute path of the metrics as a text file."""
    when_unsatisfiable: str = UNSATISFIABLE_ACTIONS[0]
    fail_on_timeout: bool = False
    memory_nodes: MemoryNodes = field(default_factory=MemoryNodes)
    """What NUMA nodes without CPUs are for."""
    placement_strategy: str = PLACEMENT_STRATEGIES[0]
    """Which of equally close nodes wins."""
    pod_strategies: PodStrategies = field(default_factory=PodStrategies)
    """Which strategies annotations may choose."""
    cpu_follows_memory: str = CPU_FOLLOWINGS[0]
    """Whether pinned containers get the CPUs of their nodes."""
    memory_policies: MemoryPolicies = field(default_factory=MemoryPolicies)
    """Which memory policies containers may get."""
    network_hints: str = NETWORK_HINTS_CHOICES[0]
    """Which network interfaces count as hints."""
    burstable_pods: BurstablePods = field(default_factory=BurstablePods)
    """Which containers of Burstable pods are pinned."""
    residency: Residency = OFF
    """Whether the plugin watches where the pages of containers are."""
    log_level: str = LOG_LEVELS[0]
    log_file: str | None = None
    """Absolute path; None is the default of ``observe.log``."""
    log_format: str = LOG_FORMATS[0]
    origins: Mapping[str, Callable[[SettingsPath], str]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Key -> function that returns the place of a path below it; not a key of the settings."""

    def place_of(self, path: SettingsPath) -> str:
        """Return where a setting was written: "FILE:LINE" or a flag; "" for a default."""
        origin = self.origins.get(str(path[0])) if path else None
        return origin(path) if origin else ""

    @property
    def state_file_or_default(self) -> str:
        """Return the path of the state file, STATE_FILE if it is unset; "" for none."""
        return STATE_FILE if self.state_file is None else self.state_file

    @property
    def is_managed_twice(self) -> bool:
        """Return whether the kubelet's configuration file activates its memory manager too."""
        return (self.memory_manager_policy, self.kubelet_memory_manager_policy) == (STATIC, STATIC)

    @property
    def has_static_cpus(self) -> bool:
        """Return whether the kubelet's configuration file activates exclusive CPUs."""
        return self.kubelet_cpu_manager_policy == "static"

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each accepted setting that has no effect or conflicts with the kubelet's."""
        notes: list[str] = []
        if self.max_allowable_numa_nodes is not None:
            place = f"topologyManagerPolicyOptions.{MAX_ALLOWABLE}"
            notes.append(f"{place} has no effect: the number of NUMA nodes is not limited")
        if self.is_managed_twice:
            notes.append(
                "both memory managers are active: the kubelet's memoryManagerPolicy is Static, so "
                "the cpuset.mems that it sets are only recorded; set the policy to None in "
                f"{self.kubelet_config_file or 'its configuration'}"
            )
        return tuple(notes)


def settings_from_mapping(document: object) -> Settings:
    """Return the settings of a parsed document; None (an empty file) gives the defaults.

    A key without a value (null) keeps its default, as in Kubernetes. Raises SettingsError for the
    first key, type or value that cannot be used.
    """
    _refuse_kubelet_configuration(document)
    top = read_mapping((), document, KEYS)

    def choice(key: str, allowed: tuple[str, ...]) -> str:
        return read_choice((key,), top.get(key), allowed)

    def amounts(key: str, allowed: tuple[str, ...]) -> dict[str, str]:
        return read_amounts(key, top.get(key), allowed)

    path = ("topologyManagerPolicyOptions",)
    options = read_mapping(path, top.get(path[0]), OPTIONS)
    return Settings(
        memory_manager_policy=choice("memoryManagerPolicy", MEMORY_MANAGER_POLICIES),
        topology_manager_policy=choice("topologyManagerPolicy", TOPOLOGY_MANAGER_POLICIES),
        topology_manager_scope=choice("topologyManagerScope", TOPOLOGY_MANAGER_SCOPES),
        prefer_closest_numa_nodes=read_go_bool(
            (*path, PREFER_CLOSEST), options.get(PREFER_CLOSEST), default=True
        ),
        max_allowable_numa_nodes=_max_allowable(path, options.get(MAX_ALLOWABLE)),
        reserved_memory=read_reservations(top.get("reservedMemory")),
        kube_reserved=amounts("kubeReserved", kubelet.RESERVABLE),
        system_reserved=amounts("systemReserved", kubelet.RESERVABLE),
        eviction_hard=amounts("evictionHard", kubelet.EVICTION_SIGNALS),
        kubelet_config_file=read_path("kubeletConfigFile", top, "/var/lib/kubelet/config.yaml"),
        state_file=read_state_file(top),
        metrics_address=read_address(("metricsAddress",), top.get("metricsAddress")),
        metrics_textfile=read_textfile(top),
        when_unsatisfiable=choice("whenUnsatisfiable", UNSATISFIABLE_ACTIONS),
        fail_on_timeout=read_go_bool(("failOnTimeout",), top.get("failOnTimeout"), default=False),
        memory_nodes=read_memory_nodes(top.get(MEMORY_NODES)),
        placement_strategy=choice("placementStrategy", PLACEMENT_STRATEGIES),
        pod_strategies=read_pod_strategies(top.get(POD_STRATEGIES)),
        cpu_follows_memory=choice("cpuFollowsMemory", CPU_FOLLOWINGS),
        memory_policies=read_memory_policies(top.get(MEMORY_POLICY)),
        network_hints=choice(NETWORK_HINTS, NETWORK_HINTS_CHOICES),
        burstable_pods=read_burstable_pods(top.get(BURSTABLE_PODS)),
        residency=read_residency(top.get(RESIDENCY)),
        log_level=choice("logLevel", LOG_LEVELS),
        log_file=read_path("logFile", top, "/var/log/nri-numamem.log"),
        log_format=choice("logFormat", LOG_FORMATS),
    )


def settings_to_mapping(settings: Settings) -> dict[str, object]:
    """Return the document from which settings_from_mapping() makes an equal value.

    It has every setting that has a value, defaults included.
    """
    options = {PREFER_CLOSEST: str(settings.prefer_closest_numa_nodes).lower()}
    if settings.max_allowable_numa_nodes is not None:
        options[MAX_ALLOWABLE] = str(settings.max_allowable_numa_nodes)
    document: dict[str, object] = {
        "memoryManagerPolicy": settings.memory_manager_policy,
        "reservedMemory": reservations_document(settings.reserved_memory),
        "topologyManagerPolicy": settings.topology_manager_policy,
        "topologyManagerScope": settings.topology_manager_scope,
        "topologyManagerPolicyOptions": options,
        "kubeReserved": dict(settings.kube_reserved),
        "systemReserved": dict(settings.system_reserved),
        "evictionHard": dict(settings.eviction_hard),
        "kubeletConfigFile": settings.kubelet_config_file,
        "stateFile": settings.state_file,
        "metricsAddress": settings.metrics_address,
        "metricsTextfile": settings.metrics_textfile,
        "whenUnsatisfiable": settings.when_unsatisfiable,
        "failOnTimeout": settings.fail_on_timeout,
        MEMORY_NODES: memory_nodes_document(settings.memory_nodes),
        "placementStrategy": settings.placement_strategy,
        POD_STRATEGIES: pod_strategies_document(settings.pod_strategies),
        "cpuFollowsMemory": settings.cpu_follows_memory,
        MEMORY_POLICY: memory_policies_document(settings.memory_policies),
        NETWORK_HINTS: settings.network_hints,
        BURSTABLE_PODS: burstable_pods_document(settings.burstable_pods),
        RESIDENCY: residency_document(settings.residency),
        "logLevel": settings.log_level,
        "logFile": settings.log_file,
        "logFormat": settings.log_format,
    }
    return {key: value for key, value in document.items() if value not in (None, {}, [])}


def _refuse_kubelet_configuration(document: object) -> None:
    for key in ("apiVersion", "kind"):
        if isinstance(document, Mapping) and key in document:
            problem = "this looks like a whole KubeletConfiguration"
            allowed = ", ".join(KEYS)
            remedy = f"set kubeletConfigFile to its path, or keep only these keys: {allowed}"
            raise SettingsError((key,), problem, remedy)


def _max_allowable(path: SettingsPath, value: object) -> int | None:
    if value is None:
        return None
    least, most = MAX_ALLOWABLE_LEAST, MAX_ALLOWABLE_MOST
    return read_integer((*path, MAX_ALLOWABLE), value, least=least, most=most)
