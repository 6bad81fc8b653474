"""The reply to Configure by version and setting."""

import pytest

from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.subscription import SUBSCRIBED, SUBSCRIPTION, WITH_POD_UPDATES, subscribe
from tests.laboratory import api_pb2 as api


def reply(version: str | None, *, fails: bool) -> api.ConfigureResponse:
    configuration = Configuration("", "containerd", "v2", version, 2000)
    return api.ConfigureResponse.FromString(subscribe(configuration, fails_on_timeout=fails))


def test_the_subscription_depends_on_the_version() -> None:
    assert reply(None, fails=False) == api.ConfigureResponse.FromString(SUBSCRIBED)
    assert reply(None, fails=False).events == SUBSCRIPTION
    assert reply("v0.12.0", fails=False).events == WITH_POD_UPDATES


@pytest.mark.parametrize(
    ("version", "fails", "expected"),
    [
        ("v0.12.5", True, True),
        ("v0.12.5", False, False),
        ("v0.12.4", True, False),
        (None, True, False),
    ],
)
def test_the_failure_policy_is_sent_only_where_it_is_known(
    version: str | None, fails: bool, expected: bool
) -> None:
    found = reply(version, fails=fails)
    assert found.failure_policy.fail_request is expected
    assert found.HasField("failure_policy") is expected
    assert not found.failure_policy.keep_connected
