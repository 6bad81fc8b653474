"""The name and the index under which the plugin registers with the runtime."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.config.errors import UsageError

_NAME = re.compile(r"(?:\d\d-)?(.+)")  # NRI 0.3 puts the index into the name


@dataclass(frozen=True, slots=True)
class Identity:
    """The plugin's name, and its place among all plugins as two digits."""

    name: str = "nri-numamem"
    idx: str = "10"


def identity_of(environment: Mapping[str, str]) -> Identity:
    """Return the name and index that the runtime passed to a launched plugin.

    Raises UsageError when the runtime passed no name.
    """
    name = _NAME.fullmatch(environment.get("NRI_PLUGIN_NAME", ""))
    if name is None:
        raise UsageError("NRI_PLUGIN_NAME is not set, though NRI_PLUGIN_SOCKET is")
    # The runtime uses the file's name and ignores the registered one.
    idx = environment.get("NRI_PLUGIN_IDX", Identity().idx)
    return Identity(name[1], idx)
