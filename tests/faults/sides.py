"""The runtime's side of a life in the words that all of them share: one call at a time.

A side is driven message by message and keeps no pods: what runs is the node's business, which
survives its runtime. A call says what the runtime would do next: apply what was answered, fail
because the plugin refused, or go on as if nobody had been asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nri_numamem.nri import api_pb2 as api

Content = tuple[list[api.PodSandbox], list[api.Container]]
Updates = list[api.ContainerUpdate]

# How long a start of the plugin may take on a machine that is busy with other lives.
CONNECT_S = 15.0
# Between looks whether a launched plugin can still come back.
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    payload: bytes = b""
    """The reply as the runtime applies it; empty where nobody answered."""
    refusal: str | None = None
    is_dead: bool = False
    """The runtime died over it."""
    took_s: float = 0.0


class Side(Protocol):
    """A runtime that can be started and killed, over and over."""

    name: str
    request_timeout_s: float
    is_launching: bool
    nri_version: tuple[int, ...]

    def start(self, content: Content) -> Updates | None:
        """Begin to run; a runtime that launches its plugin tells it the content.

        None when the launched plugin did not get through its start.
        """

    def kill(self) -> None:
        """End without a warning."""

    def admit(self, content: Content, is_hopeless: Callable[[], bool]) -> Updates | None:
        """Let the plugin in and synchronize it; None when that failed, or nobody can come."""

    def tell(self, content: Content) -> None:
        """Set what a plugin is told that comes without being let in."""

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Answer:
        """Do one operation."""

    def is_dropped(self) -> bool:
        """Tell whether the runtime has given up the plugin that came last."""

    @property
    def pid(self) -> int:
        """The runtime's process; 0 when it is in ours."""
