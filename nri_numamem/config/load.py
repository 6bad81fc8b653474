"""Read the plugin's configuration, YAML or JSON, and its flags.

The text comes from a file, or from the runtime in Configure. If it names the kubelet's
configuration file, keys that it leaves out are copied from there. An error in either file becomes
one line, "ORIGIN:LINE: PROBLEM; REMEDY": ``config.settings`` raises it with the key, this module
adds the line.

PyYAML is imported only when there is text to parse; most installations have no configuration.
"""

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri_numamem.config.documents import DocumentError, decode, line_of, open_without_waiting, parse
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
)
from nri_numamem.config.values import SettingsPath, read_address
from nri_numamem.kubelet.config_file import KubeletConfig, KubeletConfigError, read_kubelet_config
from nri_numamem.memorymanager.reserved_memory import (
    Reservation,
    ReservedMemoryError,
    parse_reserved_memory,
)

DEFAULT_CONFIG = Path("/etc/nri-numamem/config.yaml")
"""The configuration of the plugin as a service."""

_ROOT = Path("/")

# Settings for 1,024 NUMA nodes with five page sizes each need 200 KiB. Parsing takes at most 1.5 s;
# the runtime of a launched plugin waits for it.
_TEXT_LIMIT = 512 * 1024


def load_file(path: Path, kubelet_config: Path | None = None, root: Path = _ROOT) -> Settings:
    """Return the settings in a file; raise UsageError if it cannot be read or is invalid.

    `kubelet_config` replaces the kubeletConfigFile in that file, whose path is below `root`.
    """
    return load_text(_read(path), str(path), kubelet_config, root)


def load_chosen(path: Path | None, kubelet_config: Path | None = None) -> Settings:
    """Return the settings in a file, or without one those in DEFAULT_CONFIG, if it exists.

    Raises UsageError.
    """
    if path is None and not DEFAULT_CONFIG.exists():
        return load_text("", "no configuration", kubelet_config)
    return load_file(path or DEFAULT_CONFIG, kubelet_config)


def _read(path: Path, named_by: str = "") -> str:
    """Return a file's text; the error for an unreadable file begins with `named_by`, if set."""
    place = f"{named_by}: {path}" if named_by else str(path)
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{place}: this is a FIFO; give the path of a regular file")
            content = file.read(_TEXT_LIMIT + 1)
    except OSError as error:
        problem = f"{error.strerror or error}; give the path of a readable file"
        raise UsageError(f"{place}: {problem}") from error
    return decode(content, str(path))


def parse_reserved(values: Iterable[str]) -> tuple[Reservation, ...]:
    """Return the reservations of all uses of ``--reserved-memory``.

    Each use adds to the previous ones; an empty value discards them, as in the kubelet. Raises
    UsageError with the invalid value.
    """
    reservations: tuple[Reservation, ...] = ()
    for value in values:
        try:
            entries = parse_reserved_memory(value)
        except ReservedMemoryError as error:
            remedy = "write NODE:TYPE=QUANTITY, such as 0:memory=1Gi"
            raise UsageError(f"--reserved-memory {value!r}: {error}; {remedy}") from error
        reservations = reservations + entries if value else ()
    return reservations


def parse_metrics_address(value: str) -> str:
    """Return the address of ``--metrics-address``, or ""; raise UsageError if it is invalid."""
    try:
        return read_address(("--metrics-address",), value)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def load_text(
    text: str, origin: str, kubelet_config: Path | None = None, host_root: Path = _ROOT
) -> Settings:
    """Return the settings in a YAML text; empty text gives the defaults.

    Errors begin with `origin`, such as the file's name; `kubelet_config` and `host_root` are those
    of load_file(). Raises UsageError.
    """
    root, document = _parse(text, origin)
    origins = _origins(root, document, origin)
    settings = replace(_settings(root, document, origin), origins=origins)
    name = kubelet_config or settings.kubelet_config_file
    if name is None:
        return settings
    path = Path(name).absolute()
    key = "kubeletConfigFile"
    named_by = "--kubelet-config" if kubelet_config else f"{origin}:{line_of(root, (key,))}: {key}"
    kubelet, kubelet_origins = _load_kubelet(below(host_root, path), named_by)
    document = document if isinstance(document, dict) else {}
    own = {key: value for key, value in document.items() if value is not None}
    merged = {**kubelet.settings, **own, key: str(path)}
    by_flag = {key: lambda _path: "--kubelet-config"} if kubelet_config else {}
    return replace(
        _settings(root, merged, origin),
        kubelet_memory_manager_policy=kubelet.memory_manager_policy,
        kubelet_cpu_manager_policy=kubelet.cpu_manager_policy,
        kubelet_reserved_cpus=kubelet.reserved_system_cpus,
        origins=kubelet_origins | {key: origins[key] for key in own if key in origins} | by_flag,
    )


def _origins(
    root: Any,  # noqa: ANN401 - PyYAML's node
    document: object,
    origin: str,
) -> dict[str, Callable[[SettingsPath], str]]:
    keys = document if isinstance(document, Mapping) else ()
    return dict.fromkeys(map(str, keys), lambda path: f"{origin}:{line_of(root, path)}")


def _settings(root: Any, document: object, origin: str) -> Settings:  # noqa: ANN401 - PyYAML's node
    try:
        return settings_from_mapping(document)
    except SettingsError as error:
        raise DocumentError(origin, line_of(root, error.path), str(error)) from error


def _load_kubelet(
    path: Path, named_by: str
) -> tuple[KubeletConfig, dict[str, Callable[[SettingsPath], str]]]:
    """Return the kubelet's configuration with checked values, and the places of its keys.

    Raises UsageError.
    """
    root, document = _parse(_read(path, named_by), str(path))
    try:
        kubelet = read_kubelet_config(document)
    except KubeletConfigError as error:
        raise DocumentError(str(path), line_of(root, error.path), str(error)) from error
    _settings(root, kubelet.settings, str(path))
    return kubelet, _origins(root, kubelet.settings, str(path))


def _parse(text: str, origin: str) -> tuple[Any, object]:
    """Return the root node, for line numbers, and the document; both None for empty text."""
    if not text.strip():
        return None, None
    if len(text) > _TEXT_LIMIT:
        problem = f"more than {_TEXT_LIMIT} characters; give the path of a configuration"
        raise DocumentError(origin, 1, problem)
    return parse(text, origin)
