"""Read the plugin's configuration: YAML (JSON is part of it) to ``Settings``, and flags.

The text comes from a file, or from the runtime at Configure. What it leaves out is taken from the
kubelet's own configuration file, if it names one. Whatever is wrong with either becomes one line,
"ORIGIN:LINE: PROBLEM; REMEDY". Which settings exist is known to ``engine.settings`` only; here a
complaint of it gets its line number.

PyYAML is imported when there is text to parse: most installations have none.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.strict_yaml import DocumentError, decode, line_of, parse
from nri_numamem.engine.settings import (
    MemoryReservation,
    Settings,
    SettingsError,
    settings_from_mapping,
)
from nri_numamem.engine.settings_values import read_address
from nri_numamem.machine.kubelet_config import (
    KubeletConfig,
    KubeletConfigError,
    read_kubelet_config,
)
from nri_numamem.memorymanager.reserved import ReservedMemoryError, parse_reserved_memory

# Settings for 1,024 NUMA nodes with five page sizes each need 200 KiB.
_TEXT_LIMIT = 1024 * 1024


def load_file(path: Path, kubelet_config: Path | None = None) -> Settings:
    """Return the settings in a file; DocumentError when it cannot be read or used.

    `kubelet_config` is the kubelet's configuration file, instead of the one that is named there.
    """
    return load_text(_read(path), str(path), kubelet_config)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_TEXT_LIMIT + 1)
    except OSError as error:
        problem = f"{error.strerror or error}; give the path of a readable file"
        raise DocumentError(str(path), 1, problem) from error
    return decode(content, str(path))


def parse_reserved(values: Iterable[str]) -> tuple[MemoryReservation, ...]:
    """Return the reservations of all uses of ``--reserved-memory``; UsageError names the bad one.

    A further use adds to the former ones; an empty value forgets them, as in the kubelet.
    """
    reservations: tuple[MemoryReservation, ...] = ()
    for value in values:
        try:
            entries = parse_reserved_memory(value)
        except ReservedMemoryError as error:
            remedy = "write NODE:TYPE=QUANTITY, such as 0:memory=1Gi"
            raise UsageError(f"--reserved-memory {value!r}: {error}; {remedy}") from error
        added = tuple(MemoryReservation(entry.numa_node, entry.limits) for entry in entries)
        reservations = reservations + added if value else ()
    return reservations


def parse_metrics_address(value: str) -> str:
    """Return the HOST:PORT of ``--metrics-address``, "" for none; UsageError when it is neither."""
    try:
        return read_address(("--metrics-address",), value)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def load_text(text: str, origin: str, kubelet_config: Path | None = None) -> Settings:
    """Return the settings in a YAML text; empty text gives the defaults.

    `origin` names the text in errors, e.g. the file it is from; `kubelet_config` as in
    load_file(). Raises DocumentError.
    """
    root, document = _parse(text, origin)
    settings = _settings(root, document, origin)
    name = kubelet_config or settings.kubelet_config_file
    if name is None:
        return settings
    path = Path(name).absolute()
    kubelet = _load_kubelet(path)
    given = document if isinstance(document, dict) else {}
    ours = {key: value for key, value in given.items() if value is not None}
    merged = {**kubelet.settings, **ours, "kubeletConfigFile": str(path)}
    policy = kubelet.memory_manager_policy
    return replace(_settings(root, merged, origin), kubelet_memory_manager_policy=policy)


def _settings(root: Any, document: object, origin: str) -> Settings:  # noqa: ANN401 - PyYAML's node
    try:
        return settings_from_mapping(document)
    except SettingsError as error:
        raise DocumentError(origin, line_of(root, error.path), str(error)) from error


def _load_kubelet(path: Path) -> KubeletConfig:
    """Return what the kubelet's file says, each value checked; DocumentError."""
    root, document = _parse(_read(path), str(path))
    try:
        kubelet = read_kubelet_config(document)
    except KubeletConfigError as error:
        raise DocumentError(str(path), line_of(root, error.path), str(error)) from error
    _settings(root, kubelet.settings, str(path))
    return kubelet


def _parse(text: str, origin: str) -> tuple[Any, object]:
    """Return the root node, for line numbers, and the document; both None when there is none."""
    if not text.strip():
        return None, None
    if len(text) > _TEXT_LIMIT:
        problem = f"more than {_TEXT_LIMIT} characters; this is no configuration"
        raise DocumentError(origin, 1, problem)
    return parse(text, origin)
