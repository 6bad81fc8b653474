"""What the runtime sends in Configure, and the reply: the subscription.

The reply says which events the plugin receives, and what happens when it is late.
"""

import re
from dataclasses import dataclass
from typing import Self

from nri_numamem.engine.records.connection import RuntimeNames
from nri_numamem.nri import nri_subset_pb2 as api

# NRI 0.12.4 has the policy as well, but fails the next request after any end of the connection.
_FAILURE_POLICY_SINCE = (0, 12, 5)
_MEMORY_POLICY_SINCE = (0, 12, 0)
_RELEASE = re.compile(r"v(\d{1,9})\.(\d{1,9})\.(\d{1,9})")

# Since NRI 0.2. An unknown bit closes the connection, 0 subscribes to all, including validation.
SUBSCRIPTION = sum(
    1 << (event - 1)
    for event in (
        api.RUN_POD_SANDBOX,
        api.STOP_POD_SANDBOX,
        api.REMOVE_POD_SANDBOX,
        api.CREATE_CONTAINER,
        api.UPDATE_CONTAINER,
        api.STOP_CONTAINER,
        api.REMOVE_CONTAINER,
    )
)
# Since NRI 0.10; a runtime sends its version since 0.12.
WITH_POD_UPDATES = SUBSCRIPTION | 1 << (api.UPDATE_POD_SANDBOX - 1)

SUBSCRIBED = api.ConfigureResponse(events=SUBSCRIPTION).SerializeToString()
"""The reply to a Configure request that was not applied."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The runtime's Configure request; fields that an old runtime does not send are None."""

    text: str
    runtime_name: str
    runtime_version: str
    nri_version: str | None
    request_timeout_ms: int | None

    @classmethod
    def of(cls, request: api.ConfigureRequest) -> Self:
        """Return the contents of a request."""
        return cls(
            text=request.config,
            runtime_name=request.runtime_name,
            runtime_version=request.runtime_version,
            nri_version=request.NRI_version or None,
            request_timeout_ms=request.request_timeout or None,
        )

    @property
    def names(self) -> RuntimeNames:
        """The runtime and its versions, as fields of a record."""
        return RuntimeNames(
            runtime=self.runtime_name,
            runtime_version=self.runtime_version,
            nri_version=self.nri_version,
        )

    @property
    def survives_refusal(self) -> bool:
        """Whether the runtime survives when a launched plugin refuses its configuration.

        Up to NRI 0.6.1 the runtime exits. Since 0.7.0, which also sends the timeouts, it skips the
        plugin.
        """
        return self.request_timeout_ms is not None

    @property
    def supports_failure_policy(self) -> bool:
        """Whether the runtime's NRI is known to honour ConfigureResponse.failure_policy.

        Only releases count: other builds name themselves as they like.
        """
        return self._is_release_since(_FAILURE_POLICY_SINCE)

    @property
    def supports_memory_policy(self) -> bool:
        """Whether the runtime's NRI is known to have LinuxContainerAdjustment.memory_policy.

        An older one drops the field silently.
        """
        return self._is_release_since(_MEMORY_POLICY_SINCE)

    @property
    def supports_oom_score_adj(self) -> bool:
        """Whether the runtime's NRI has LinuxContainerAdjustment.oom_score_adj.

        NRI 0.7.0, which added it, was the first to send the timeouts; older versions drop the field
        silently.
        """
        return self.request_timeout_ms is not None

    def _is_release_since(self, least: tuple[int, int, int]) -> bool:
        release = _RELEASE.fullmatch(self.nri_version or "")
        return release is not None and tuple(map(int, release.groups())) >= least


def subscribe(configuration: Configuration, *, fails_on_timeout: bool) -> bytes:
    """Return the reply to Configure.

    `fails_on_timeout`: a request fails when the plugin misses its deadline, if the runtime supports
    that.
    """
    reply = api.ConfigureResponse(events=SUBSCRIPTION)
    if configuration.nri_version is not None:
        reply.events = WITH_POD_UPDATES
    if fails_on_timeout and configuration.supports_failure_policy:
        reply.failure_policy.fail_request = True
    return reply.SerializeToString()
