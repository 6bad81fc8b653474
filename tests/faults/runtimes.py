"""The interface of a life's runtime: one call at a time.

A runtime of this interface keeps no pods, because pods (node.py) survive their runtime. The result
of a call is what a real runtime acts on: a reply to apply, a refusal, or no reply at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.laboratory import api_pb2 as api

Content = tuple[list[api.PodSandbox], list[api.Container]]
Updates = list[api.ContainerUpdate]

# Time limit of a plugin's start on a machine that is busy with other lives.
CONNECT_S = 15.0
# Interval between checks whether a launched plugin can still connect.
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a call."""

    payload: bytes = b""
    """The encoded reply as the runtime applies it; empty without a plugin."""
    refusal: str | None = None
    runtime_died: bool = False
    """The runtime died during the call."""
    took_s: float = 0.0


class Runtime(Protocol):
    """A runtime that can be started and killed repeatedly."""

    name: str
    request_timeout_s: float
    launches_plugin: bool
    nri_version: tuple[int, ...]

    def start(self, content: Content) -> Updates | None:
        """Start; a runtime that launches its plugin synchronizes it with the content.

        None when the launched plugin did not get through its start.
        """

    def kill(self) -> None:
        """Kill the runtime."""

    def accept_plugin(self, content: Content, cannot_connect: Callable[[], bool]) -> Updates | None:
        """Accept one connection and synchronize; return the updates, None if that failed."""

    def set_content(self, content: Content) -> None:
        """Set the content for a plugin that connects by itself."""

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Reply:
        """Do one operation."""

    def is_dropped(self) -> bool:
        """Return whether the runtime has dropped the last plugin."""

    @property
    def pid(self) -> int:
        """The runtime's process id; 0 if it runs in this process."""
