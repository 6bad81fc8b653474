"""What a kubelet's command line and drop-in directory change in its configuration.

Flags override the configuration file, and so do the files ``*.conf`` of the directory of
``--config-dir``, in the order of their names. Only flags that concern reserved memory are read.
Source: kubelet options (cmd/kubelet/app/options) and server.go, mergeKubeletConfigurations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.memorymanager.reserved_memory import parse_reserved_memory
from nri_numamem.numa.quantity import format_quantity

_MAPPINGS = {"kube-reserved": "=", "system-reserved": "=", "eviction-hard": "<"}
_KEYS = {
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
}
_FLAGS = ("config", "config-dir", "reserved-memory", *_MAPPINGS)


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
            overrides[_KEYS[name]] = mappings[name]
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
    for part in filter(None, value.split(",")):
        key, sign, amount = part.partition(_MAPPINGS[name])
        if not sign or not key or not amount:
            raise ArgumentsError(f"--{name}: {part!r} is not NAME{_MAPPINGS[name]}AMOUNT")
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
