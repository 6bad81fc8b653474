"""The reply to Configure: which events the plugin receives, and what happens when it is late."""

from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.configuration import Configuration

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
"""The reply to a Configure that was not read."""


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
