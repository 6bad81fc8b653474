"""Describes this process for the commands of other processes (``observe.plugin_file``).

Changes take place in requests, whose time is limited; the file is written after the replies.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from nri_numamem.config.effective import effective_settings
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.identity import Identity
from nri_numamem.nri.configuration import Configuration
from nri_numamem.observe.plugin_file import PluginFacts, RuntimeFacts, Setting, StartMode
from nri_numamem.version import VERSION


class Description:
    """The facts about this process; `wall_s` returns the Unix time."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self._facts: PluginFacts | None = None
        """None before the settings are known."""
        self._name = ""
        self._taken: PluginFacts | None = None
        """The facts of the last take()."""

    def started(self, settings: Settings, mode: StartMode, started_as: str) -> None:
        """Begin with these settings."""
        found = effective_settings(settings).items()
        self._facts = PluginFacts(
            version=VERSION,
            pid=os.getpid(),
            mode=mode,
            started_as=started_as,
            started_s=self._now(),
            settings={key: Setting(value, origin) for key, (value, origin) in found},
            name=self._name,
        )

    def connecting(self, identity: Identity) -> None:
        """Take note of the name in the registration."""
        self._name = f"{identity.idx}-{identity.name}"
        if self._facts is not None:
            self._facts = replace(self._facts, name=self._name)

    def configured(self, configuration: Configuration) -> None:
        """Take note of a runtime that configured the plugin."""
        if self._facts is None:
            return
        now_s = self._now()
        runtime = RuntimeFacts(
            configuration.runtime_name,
            configuration.runtime_version,
            configuration.nri_version,
            now_s,
        )
        self._facts = replace(
            self._facts, runtime=runtime, is_connected=True, connection_changed_s=now_s
        )

    def disconnected(self) -> None:
        """Take note of the end of the connection."""
        if self._facts is not None and self._facts.is_connected:
            now_s = self._now()
            self._facts = replace(self._facts, is_connected=False, connection_changed_s=now_s)

    def ended(self) -> None:
        """Take note of the orderly end of the process."""
        if self._facts is not None:
            self._facts = replace(self._facts, ended_s=self._now())

    def take(self) -> PluginFacts | None:
        """Return the facts if they changed since the last call."""
        if self._facts is self._taken:
            return None
        self._taken = self._facts
        return self._facts

    def _now(self) -> int:
        return int(self._wall_s())
