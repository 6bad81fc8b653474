"""The file plugin.json beside the state file: the running plugin, its runtime and its settings.

Commands of other processes read it; the plugin itself never does. docs/state-directory.md describes
the document.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from nri_numamem.observe.files import beside, read_regular, reason_of

VERSION = 1
NAME = "plugin.json"

# Settings for 1,024 NUMA nodes need some 200 KiB.
_SIZE_LIMIT_BYTES = 4 << 20


class PluginFileError(ValueError):
    """A file that cannot be read or is not of this version; the text names the path."""


class StartMode(StrEnum):
    """How the plugin was started."""

    SERVICE = "service"
    """By ``nri-numamem run``."""
    LAUNCHED = "launched"
    """By the runtime, from its plugin directory."""
    RESTARTED = "restarted"
    """By the supervisor of a launched plugin."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of one setting, None if it is unset."""

    value: object
    origin: str
    """"FILE:LINE", a flag, or "default"."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The runtime, as it described itself in Configure."""

    name: str
    version: str
    nri_version: str | None
    """None if the runtime is too old to send it."""
    configured_s: int
    """When it did, in Unix time."""


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """The plugin's process; times are Unix time in seconds."""

    version: str
    pid: int
    mode: StartMode
    started_as: str
    """For people."""
    started_s: int
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Every key of the settings."""
    name: str = ""
    """NRI index and name, such as "10-nri-numamem"; "" before the first connection."""
    runtime: RuntimeFacts | None = None
    """The last runtime that configured the plugin."""
    is_connected: bool = False
    """Whether that runtime's connection lasts."""
    connection_changed_s: int | None = None
    """When `is_connected` changed last."""
    ended_s: int | None = None
    """When the process ended in an orderly way."""


def plugin_file_of(state_file: Path) -> Path:
    """Return the path of the file that belongs to a state file."""
    return beside(state_file, NAME)


def encode(facts: PluginFacts) -> bytes:
    """Return the document."""
    runtime = facts.runtime
    document = {
        "version": VERSION,
        "plugin": {
            "version": facts.version,
            "pid": facts.pid,
            "name": facts.name,
            "mode": facts.mode.value,
            "started_as": facts.started_as,
            "started": _time(facts.started_s),
            "ended": _time(facts.ended_s),
        },
        "connection": {
            "connected": facts.is_connected,
            "changed": _time(facts.connection_changed_s),
        },
        "runtime": None
        if runtime is None
        else {
            "name": runtime.name,
            "version": runtime.version,
            "nri_version": runtime.nri_version,
            "configured": _time(runtime.configured_s),
        },
        "settings": {
            key: {"value": setting.value, "origin": setting.origin}
            for key, setting in facts.settings.items()
        },
    }
    return f"{json.dumps(document, indent=1)}\n".encode("ascii")


def read_plugin_file(path: Path) -> PluginFacts | None:
    """Return what a plugin wrote; None if there is no file. Raises PluginFileError."""
    try:
        data = read_regular(path, _SIZE_LIMIT_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PluginFileError(f"{path}: {reason_of(error)}") from error
    return decode(data, path)


def decode(data: bytes, path: Path) -> PluginFacts:
    """Return the contents of a document; PluginFileError, which names `path`, if it is none."""
    try:
        document = json.loads(data)
        version = document["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PluginFileError(f"{path}: not a document of the plugin") from error
    if version != VERSION:
        raise PluginFileError(f"{path}: version {version!r:.20}; this program reads {VERSION}")
    try:
        return _facts(document)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise PluginFileError(f"{path}: {type(error).__name__} {error!s:.60}") from error


def _facts(document: Any) -> PluginFacts:  # noqa: ANN401 - JSON
    plugin, connection, runtime = (document[key] for key in ("plugin", "connection", "runtime"))
    settings = {str(key): _setting(entry) for key, entry in document["settings"].items()}
    return PluginFacts(
        version=str(plugin["version"]),
        pid=int(plugin["pid"]),
        mode=StartMode(plugin["mode"]),
        started_as=str(plugin["started_as"]),
        started_s=_seconds(plugin["started"]) or 0,
        settings=settings,
        name=str(plugin["name"]),
        runtime=None if runtime is None else _runtime(runtime),
        is_connected=connection["connected"] is True,
        connection_changed_s=_seconds(connection["changed"]),
        ended_s=_seconds(plugin["ended"]),
    )


def _setting(entry: Any) -> Setting:  # noqa: ANN401 - JSON
    return Setting(entry["value"], str(entry["origin"]))


def _runtime(entry: Any) -> RuntimeFacts:  # noqa: ANN401 - JSON
    nri_version = entry["nri_version"]
    return RuntimeFacts(
        str(entry["name"]),
        str(entry["version"]),
        None if nri_version is None else str(nri_version),
        _seconds(entry["configured"]) or 0,
    )


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime(_TIME, time.gmtime(seconds))


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    return int(datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp())
