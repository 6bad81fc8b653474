"""Describes this process for the commands of other processes (``observe.plugin_file``).

The time of a request is limited, so a change within a request is handed over after the reply.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nri_numamem.config.settings import Settings, effective_settings
from nri_numamem.daemon.identity import Identity
from nri_numamem.nri.configuration import Configuration
from nri_numamem.observe.plugin_file import PluginFacts, RuntimeFacts, Setting, StartMode
from nri_numamem.version import VERSION


class Description:
    """The facts about this process.

    `describe` hands them over to be written; `wall_s` returns the Unix time.
    """

    def __init__(
        self, describe: Callable[[PluginFacts], None], wall_s: Callable[[], float]
    ) -> None:
        self._describe = describe
        self._wall_s = wall_s
        self._facts: PluginFacts | None = None
        """None before the settings are known."""
        self._name = ""
        self._described: PluginFacts | None = None

    def started(self, settings: Settings, mode: StartMode, started_as: str) -> None:
        """Begin with these settings; may be called within Configure."""
        self._facts = PluginFacts(
            version=VERSION,
            pid=os.getpid(),
            mode=mode,
            started_as=started_as,
            started_s=self._now(),
            settings=_described(settings),
            name=self._name,
        )

    def changed(self, settings: Settings) -> None:
        """Describe the settings, which may have changed since the start."""
        if self._facts is not None and self._facts.settings != _described(settings):
            self._change(settings=_described(settings))
            self.flush()

    def connecting(self, identity: Identity) -> None:
        """Describe the name in the registration."""
        self._name = f"{identity.idx}-{identity.name}"
        if self._facts is not None and self._facts.name != self._name:
            self._change(name=self._name)
            self.flush()

    def configured(self, configuration: Configuration) -> None:
        """Describe a runtime that configures the plugin, within its request."""
        now_s = self._now()
        runtime = RuntimeFacts(
            configuration.runtime_name,
            configuration.runtime_version,
            configuration.nri_version,
            now_s,
        )
        self._change(runtime=runtime, is_connected=True, connection_changed_s=now_s)

    def disconnected(self) -> None:
        """Describe the end of the connection."""
        if self._facts is not None and self._facts.is_connected:
            self._change(is_connected=False, connection_changed_s=self._now())
            self.flush()

    def ended(self) -> None:
        """Describe the orderly end of the process."""
        self._change(ended_s=self._now())
        self.flush()

    def flush(self) -> None:
        """Hand over the facts if they changed; to be called outside of requests."""
        if self._facts is not None and self._facts is not self._described:
            self._described = self._facts
            self._describe(self._facts)

    def _change(self, **facts: Any) -> None:  # noqa: ANN401 - those of PluginFacts
        if self._facts is not None:
            self._facts = replace(self._facts, **facts)

    def _now(self) -> int:
        return int(self._wall_s())


def _described(settings: Settings) -> dict[str, Setting]:
    found = effective_settings(settings).items()
    return {key: Setting(value, origin) for key, (value, origin) in found}
