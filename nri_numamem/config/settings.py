"""The plugin's settings as one immutable value, and their form as a parsed document.

``settings_from_mapping`` turns a document that a YAML or JSON parser returned into ``Settings``;
each error names the place in the document and the remedy. ``settings_to_mapping`` is its inverse.
``config.table`` has the keys.

This module checks types and ranges. ``memorymanager.reserved_memory`` checks settings against the
machine, such as whether a NUMA node exists. ``config.load`` reads files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from nri_numamem.config.claims import ClaimSettings
from nri_numamem.config.earmarks import EarmarkSettings
from nri_numamem.config.features import HINTS_OFF
from nri_numamem.config.setting import Setting, read_rows, write_rows
from nri_numamem.config.table import (
    LOG_FORMATS,
    LOG_LEVELS,
    MEMORY_MANAGER_POLICIES,
    STATE_FILE,
    TABLE,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
    UNSATISFIABLE_ACTIONS,
)
from nri_numamem.config.values import SettingsError, SettingsPath
from nri_numamem.engine.core.policy import STATIC
from nri_numamem.engine.features.residency.setting import OFF, Residency
from nri_numamem.kubelet.config_file import MAX_ALLOWABLE
from nri_numamem.memorymanager.burstable import BurstablePods
from nri_numamem.memorymanager.reserved_memory import Reservation
from nri_numamem.numa.machine import CpuFollowing
from nri_numamem.numa.memory_nodes import MemoryNodes
from nri_numamem.numa.memory_policy import MemoryPolicies
from nri_numamem.numa.partitions import Partition
from nri_numamem.numa.preferences import PodStrategies, Strategy

__all__ = [
    "STATE_FILE",
    "Settings",
    "SettingsError",
    "settings_from_mapping",
    "settings_to_mapping",
]

KEYS = tuple(row.key for row in TABLE)
"""All keys, those of the kubelet first."""
DEFAULT = "default"
"""The origin of a setting that nothing sets."""


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
    placement_strategy: str = Strategy.LOWEST_IDS.value
    """Which of equally close nodes wins."""
    pod_strategies: PodStrategies = field(default_factory=PodStrategies)
    """Which strategies annotations may choose."""
    partitions: tuple[Partition, ...] = ()
    """NUMA nodes that are set apart for a kind of pods."""
    cpu_follows_memory: str = CpuFollowing.OFF.value
    """Whether pinned containers get the CPUs of their nodes."""
    memory_policies: MemoryPolicies = field(default_factory=MemoryPolicies)
    """Which memory policies containers may get."""
    network_hints: str = HINTS_OFF
    """Which network interfaces count as hints."""
    burstable_pods: BurstablePods = field(default_factory=BurstablePods)
    """Which containers of Burstable pods are pinned."""
    residency: Residency = OFF
    """Whether the plugin watches where the pages of containers are."""
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    """Whether resource claims choose NUMA nodes."""
    earmarks: EarmarkSettings = field(default_factory=EarmarkSettings)
    """Whether room can be set aside."""
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
    for key in ("apiVersion", "kind"):
        if isinstance(document, Mapping) and key in document:
            problem = "this looks like a whole KubeletConfiguration"
            allowed = ", ".join(KEYS)
            remedy = f"set kubeletConfigFile to its path, or keep only these keys: {allowed}"
            raise SettingsError((key,), problem, remedy)
    return Settings(**read_rows((), document, TABLE))


def settings_to_mapping(settings: Settings) -> dict[str, object]:
    """Return the document from which settings_from_mapping() makes an equal value.

    It has every setting that has a value, defaults included.
    """
    return write_rows(settings, TABLE)


def effective_settings(settings: Settings) -> dict[str, tuple[object, str]]:
    """Return key -> value and origin of every setting; an unset value is None."""
    effective = {"stateFile": STATE_FILE, **settings_to_mapping(settings)}
    return {key: (effective.get(key), settings.place_of((key,)) or DEFAULT) for key in KEYS}


def described_settings() -> Iterator[tuple[str, str, Setting]]:
    """Yield each key, its default as written in YAML, and its row.

    A key inside a mapping has a dot. The default is "" where an unset key is not the same as any
    value.
    """
    for row in TABLE:
        yield from row.described(Settings())
