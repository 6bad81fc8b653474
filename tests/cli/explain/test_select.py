"""Which containers a name means."""

import pytest

from nri_numamem.cli.decisions.names import Names
from nri_numamem.cli.explain.select import Query, by_container, of_pod
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import recorded

NAMES = Names("ns", "pod", "uid", "app")


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("pod", True),
        ("uid", True),
        ("ns", False),
        ("ns/pod", True),
        ("ns/uid", True),
        ("pod/app", True),
        ("uid/app", True),
        ("pod/other", False),
        ("other/pod", False),
        ("ns/pod/app", True),
        ("ns/uid/app", True),
        ("other/pod/app", False),
        ("ns/pod/other", False),
        ("ns/pod/", True),
        ("", False),
        ("a/b/c/d", False),
    ],
)
def test_what_a_name_means(text: str, is_meant: bool) -> None:
    assert Query.parsed(text).matches(NAMES) is is_meant


def entry(time_s: float, event: str = "admitted", **fields: object) -> Recorded:
    return recorded(time_s, event, "", fields)


def test_entries_by_container_and_pod() -> None:
    named = {"namespace": "ns", "pod": "pod", "pod_uid": "uid"}
    entries = [
        entry(1, **named, container="app"),
        entry(2, **named, container="b"),
        entry(3, "pod_released", **named),
        entry(4, **named, container="app"),
        entry(5),
        entry(6, "stopped"),
    ]
    found = by_container(entries, Query.parsed("pod"))
    assert {key: [e.time_s for e in group] for key, group in found.items()} == {
        ("uid", "app"): [1, 4],
        ("uid", "b"): [2],
        ("uid", ""): [3],
    }
    assert [e.time_s for e in of_pod(entries, "uid")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("upf-8", "telco/upf-8d"), ("telco/upf8d", "telco/upf-8d"), ("zzz", "")],
)
def test_the_most_similar_pod(text: str, expected: str) -> None:
    entries = [
        entry(1, namespace="telco", pod="upf-8d", pod_uid="u"),
        entry(1, namespace="db", pod="postgres-0", pod_uid="v"),
        entry(1),
    ]
    assert Query.parsed(text).suggestion(entries) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upf-8d/dpd", "telco/upf-8d/dpdk"),
        ("telco/upf-8d/xyz", "telco/upf-8d/sidecar"),
        ("u/side", "telco/upf-8d/sidecar"),
        ("other/upf-8d/dpdk", "telco/upf-8d"),
        ("other/upf-8d", "telco/upf-8d"),
    ],
)
def test_another_container_of_the_pod(text: str, expected: str) -> None:
    named = {"namespace": "telco", "pod": "upf-8d", "pod_uid": "u"}
    entries = [entry(1, **named, container=name) for name in ("dpdk", "sidecar")]
    assert Query.parsed(text).suggestion(entries) == expected
