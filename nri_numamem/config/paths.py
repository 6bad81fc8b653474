"""The settings that are paths: the state file, the text file of metrics, and others."""

from collections.abc import Mapping

from nri_numamem.config.values import SettingsError, show

# The kubelet's file name, in the plugin's own directory.
STATE_FILE = "/var/lib/nri-numamem/memory_manager_state"

# Debian's directory of the exporter.
_TEXTFILE_EXAMPLE = "/var/lib/prometheus/node-exporter/nri_numamem.prom"

# PATH_MAX of Linux, which includes the closing NUL.
_PATH_LIMIT = 4096


def read_path(key: str, top: Mapping[str, object], example: str) -> str | None:
    """Return the absolute path of a key of the document; None if it is not set."""
    value = top.get(key)
    if value is None:
        return None
    is_path = isinstance(value, str) and value.startswith("/") and "\0" not in value
    if not is_path or len(str(value)) >= _PATH_LIMIT:
        remedy = f"write a path such as {example}"
        raise SettingsError((key,), f"{show(value)} is not an absolute path", remedy)
    return str(value)


def read_state_file(top: Mapping[str, object]) -> str | None:
    """Return the path of the state file, "" for none; None if it is not set."""
    is_none = top.get("stateFile") == ""
    return "" if is_none else read_path("stateFile", top, f'{STATE_FILE}, or "" for none')


def read_textfile(top: Mapping[str, object]) -> str | None:
    """Return the path of a file that node_exporter reads: only names that end in .prom."""
    key = "metricsTextfile"
    path = read_path(key, top, _TEXTFILE_EXAMPLE)
    if path is not None and not path.endswith(".prom"):
        remedy = f"write a path such as {_TEXTFILE_EXAMPLE}"
        raise SettingsError((key,), f"{show(path)} does not end in .prom", remedy)
    return path
