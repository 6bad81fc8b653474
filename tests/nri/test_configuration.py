"""The contents of Configure with and without what old runtimes do not send, and the reply."""

import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.configuration import (
    SUBSCRIBED,
    SUBSCRIPTION,
    WITH_POD_UPDATES,
    Configuration,
    subscribe,
)
from tests.laboratory import api_pb2 as full_api


def test_an_old_runtime_sends_neither_version_nor_timeouts() -> None:
    request = api.ConfigureRequest(config="x: y", runtime_name="containerd", runtime_version="v1")
    old = Configuration.of(request)
    assert old == Configuration("x: y", "containerd", "v1", None, None)
    assert not old.survives_refusal


def test_a_new_runtime_sends_both() -> None:
    request = api.ConfigureRequest(
        runtime_name="cri-o", runtime_version="1.35", NRI_version="v0.12.5", request_timeout=2000
    )
    new = Configuration.of(request)
    assert new.survives_refusal
    about = {"runtime": "cri-o", "runtime_version": "1.35", "nri_version": "v0.12.5"}
    assert fields_of(new.names) == about


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v0.12.5", True),
        ("v0.13.0", True),
        ("v1.0.0", True),
        ("v0.12.4", False),
        ("v0.12.6-0.20260801000000-abcdef123456", False),
        ("v0.12.5+dirty", False),
        ("0.0.0-unknown", False),
        (None, False),
    ],
)
def test_only_a_release_shows_that_the_runtime_knows_the_failure_policy(
    version: str | None, supported: bool
) -> None:
    assert Configuration("", "containerd", "", version, 2000).supports_failure_policy is supported


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("v0.12.0", True),
        ("v0.12.5", True),
        ("v1.0.0", True),
        ("v0.11.9", False),
        ("v0.12.0-rc.1", False),
        ("(devel)", False),
        (None, False),
    ],
)
def test_only_a_release_shows_that_the_runtime_knows_memory_policies(
    version: str | None, supported: bool
) -> None:
    assert Configuration("", "containerd", "", version, 2000).supports_memory_policy is supported


@pytest.mark.parametrize(("timeout_ms", "supported"), [(2000, True), (None, False)])
def test_the_first_version_that_sends_timeouts_sets_scores(
    timeout_ms: int | None, supported: bool
) -> None:
    found = Configuration("", "containerd", "", None, timeout_ms)
    assert found.supports_oom_score_adj is supported


def reply(version: str | None, *, fails: bool) -> full_api.ConfigureResponse:
    configuration = Configuration("", "containerd", "v2", version, 2000)
    return full_api.ConfigureResponse.FromString(subscribe(configuration, fails_on_timeout=fails))


def test_the_subscription_depends_on_the_version() -> None:
    assert reply(None, fails=False) == full_api.ConfigureResponse.FromString(SUBSCRIBED)
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
