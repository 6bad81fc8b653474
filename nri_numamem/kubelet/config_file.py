"""The keys of the kubelet's configuration file that the plugin uses.

The input is the parsed document of a KubeletConfiguration. The result has the values of ``KEYS``
as they are written; ``config.settings`` checks them, since the plugin's own settings have the same
keys. The kubelet's default for evictionHard is filled in, because the sum of reserved memory
includes it even when the file does not set it. The kubelet's flags and its drop-in directory are
not read.
Source: k8s.io/kubelet/config/v1beta1, KubeletConfiguration.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.memorymanager.node_allocatable import DEFAULT_EVICTION
from nri_numamem.numa.quantity import is_memory_resource

POLICY_KEY = "memoryManagerPolicy"
"""The plugin has this key too, but never copies its value from the kubelet."""
CPU_POLICY_KEY = "cpuManagerPolicy"
"""Read for a warning only; the plugin assigns no CPUs."""
RESERVED_CPUS_KEY = "reservedSystemCPUs"
"""Read for the export only."""
KEYS = (
    "reservedMemory",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "kubeReserved",
    "systemReserved",
    "evictionHard",
)
"""Keys of the kubelet whose values the plugin copies; its own settings have the same keys."""
PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"
OPTIONS = (PREFER_CLOSEST, MAX_ALLOWABLE)
"""Keys in topologyManagerPolicyOptions; options of later kubelets are ignored."""

RESERVABLE = ("memory", "cpu", "ephemeral-storage", "pid")
"""Resources of kubeReserved and systemReserved. Source: kubelet, parseResourceList."""
EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
    "allocatableMemory.available",
)
"""Keys of evictionHard. Source: kubelet, pkg/kubelet/eviction/api."""

_KIND = "KubeletConfiguration"
_OPTIONS_KEY, _EVICTION_KEY = "topologyManagerPolicyOptions", "evictionHard"
_MERGE_KEY = "mergeDefaultEvictionSettings"


class KubeletConfigError(ValueError):
    """The document is not a KubeletConfiguration; the text is one line, "PROBLEM; REMEDY"."""

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        self.path = path
        """The key in question; empty for the document itself."""
        super().__init__(f"{problem}; give the file that the kubelet is started with (--config)")


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The part of a kubelet's configuration that the plugin uses."""

    settings: Mapping[str, object]
    """The values of ``KEYS`` that are set, as written."""
    memory_manager_policy: str
    """The policy of the kubelet's own manager; "None" is its default."""
    cpu_manager_policy: str
    """The policy of the kubelet's CPU manager; "none" is its default."""
    reserved_system_cpus: str = ""
    """Its reservedSystemCPUs, as written; "" is the default."""


def read_kubelet_config(document: object) -> KubeletConfig:
    """Return the part of a parsed document that the plugin uses.

    A key without a value counts as left out, and so do unknown options, resources and eviction
    signals: the kubelet checks its own file, and a later one may have more of them. With
    mergeDefaultEvictionSettings, or without any evictionHard, the default threshold of
    memory.available is added. Raises KubeletConfigError when the document is not a
    KubeletConfiguration.
    """
    if not isinstance(document, Mapping):
        raise KubeletConfigError((), f"this is not a {_KIND}")
    kind = document.get("kind")
    if kind != _KIND:
        path = () if kind is None else ("kind",)
        raise KubeletConfigError(path, f"no 'kind: {_KIND}' in this document")
    settings = {key: document[key] for key in KEYS if document.get(key) is not None}
    options = settings.get(_OPTIONS_KEY)
    if isinstance(options, Mapping):
        settings[_OPTIONS_KEY] = {key: options[key] for key in OPTIONS if key in options}
    for key in ("kubeReserved", "systemReserved", _EVICTION_KEY):
        names = EVICTION_SIGNALS if key == _EVICTION_KEY else RESERVABLE
        amounts = settings.get(key)
        if isinstance(amounts, Mapping):  # names that a later kubelet may add have no effect here
            settings[key] = {
                name: amount
                for name, amount in amounts.items()
                if name in names or (isinstance(name, str) and is_memory_resource(name))
            }
    eviction = settings.get(_EVICTION_KEY) or {}
    if isinstance(eviction, Mapping) and (not eviction or document.get(_MERGE_KEY) is True):
        settings[_EVICTION_KEY] = {**DEFAULT_EVICTION, **eviction}
    return KubeletConfig(
        settings,
        _text(document, POLICY_KEY, "None"),
        _text(document, CPU_POLICY_KEY, "none"),
        _text(document, RESERVED_CPUS_KEY, ""),
    )


def _text(document: Mapping[object, object], key: str, default: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else default
