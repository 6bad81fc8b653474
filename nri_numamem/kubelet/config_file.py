"""The keys of the kubelet's configuration file that the plugin uses.

The input is the parsed document of a KubeletConfiguration. The result has the values of ``KEYS``
as they are written; ``config.settings`` checks them, since the plugin's own settings have the same
keys. The kubelet's default for evictionHard is filled in, because the sum of reserved memory
includes it even when the file does not set it.

The plugin reads only the file. `nri-numamem reserve` also reads what overrides it: the flags that
concern reserved memory, and the files ``*.conf`` in the directory of ``--config-dir``, in the order
of their names.
Source: k8s.io/kubelet/config/v1beta1, KubeletConfiguration; kubelet options (cmd/kubelet/app/
options) and server.go, mergeKubeletConfigurations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.memorymanager.node_allocatable import DEFAULT_EVICTION
from nri_numamem.memorymanager.reserved_memory import parse_reserved_memory
from nri_numamem.numa.quantity import format_quantity, is_memory_resource

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

# Flag -> its key in the file, and the sign between name and amount.
_MAPPINGS = {
    "kube-reserved": ("kubeReserved", "="),
    "system-reserved": ("systemReserved", "="),
    "eviction-hard": (_EVICTION_KEY, "<"),
}
_FLAGS = ("config", "config-dir", "reserved-memory", *_MAPPINGS)


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


class ArgumentsError(ValueError):
    """A flag cannot be read; the text is one line that names it."""


@dataclass(frozen=True, slots=True)
class KubeletArguments:
    """The flags of a kubelet that concern reserved memory."""

    config: str | None
    """The path of the configuration file, relative to the kubelet's working directory."""
    config_dir: str | None
    overrides: Mapping[str, object]
    """Keys of KubeletConfiguration that flags set, in that file's form."""


def parse_arguments(arguments: Sequence[str]) -> KubeletArguments:
    """Return the flags of a command line, its program included.

    Raises ArgumentsError for a value that the kubelet would refuse.
    """
    last: dict[str, str] = {}
    reserved: list[dict[str, object]] = []
    mappings: dict[str, dict[str, str]] = {}
    overrides: dict[str, object] = {}
    for name, value in _flags(arguments[1:]):
        last[name] = value
        if name == "reserved-memory":  # repeated values add up; an empty one discards them
            reserved = [*reserved, *_reserved(value)] if value else []
            overrides["reservedMemory"] = reserved
        elif name in _MAPPINGS:
            mappings[name] = {**mappings.get(name, {}), **_mapping(name, value)}
            overrides[_MAPPINGS[name][0]] = mappings[name]
    return KubeletArguments(last.get("config"), last.get("config-dir"), overrides)


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of the flags, written "--name=value" or "--name value"."""
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name in _FLAGS:
            yield name, value if equals else next(rest, "")


def _reserved(value: str) -> list[dict[str, object]]:
    try:
        found = parse_reserved_memory(value)
    except ValueError as error:
        raise ArgumentsError(f"--reserved-memory: {error}") from error
    return [
        {
            "numaNode": entry.numa_node,
            "limits": {name: format_quantity(size) for name, size in entry.limits.items()},
        }
        for entry in found
    ]


def _mapping(name: str, value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    sign = _MAPPINGS[name][1]
    for part in filter(None, value.split(",")):
        key, _, amount = part.partition(sign)
        if not key or not amount:
            raise ArgumentsError(f"--{name}: {part!r} is not NAME{sign}AMOUNT")
        found[key] = amount
    return found


def merge(base: object, patch: object) -> object:
    """Return a document changed by a patch: mappings are merged, null removes, others replace.

    Source: RFC 7396, JSON merge patch.
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(base) if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
