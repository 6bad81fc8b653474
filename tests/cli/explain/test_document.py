"""The document of version 1: its keys are a contract."""

import re
from pathlib import Path

from nri_numamem.cli.explain.document import document_of
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import story_of
from tests.cli.explain.stories import Past, read, telco


def test_the_keys_of_version_1(tmp_path: Path) -> None:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    past.record("stopped")
    query = Query.parsed("web/front-9/front")
    document = document_of(story_of(query, read(past.state_file), 1, is_running=False))
    assert list(document) == [
        *("version", "query", "history", "pluginRuns", "away"),
        *("containers", "earlierPodUids", "didYouMean"),
    ]
    assert document["history"] == {
        "begins": "2023-11-14T22:13:20Z",
        "ends": "2023-11-14T22:16:10Z",
        "skippedLines": 0,
    }
    assert document["away"] == [
        {
            "since": "2023-11-14T22:13:20Z",
            "until": "2023-11-14T22:13:30Z",
            "cause": "the plugin started",
        },
        {"since": "2023-11-14T22:16:10Z", "until": None, "cause": "the plugin stopped"},
    ]
    containers = document["containers"]
    assert isinstance(containers, list)
    (container,) = containers
    assert list(container) == [
        *("namespace", "pod", "podUid", "container", "outcome", "repeated"),
        *(
            "decisions",
            "later",
            "siblings",
            "usedOutsideOfPods",
            "remedy",
            "remedies",
            "commands",
            "plan",
        ),
    ]
    assert container["outcome"] == "not_managed"
    assert [one["fields"]["container"] for one in container["siblings"]] == ["front", "istio-proxy"]
    (decision,) = container["decisions"]
    assert list(decision) == ["time", "event", "outcome", "requestId", "fields"]
    assert decision["fields"]["qos_class"] == "Burstable"


def test_every_key_is_documented(tmp_path: Path) -> None:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    document = document_of(story_of(Query.parsed("upf-8d"), read(past.state_file), 1))
    page = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
    words = set(re.findall(r"\w+", page.partition("## Document")[2]))
    assert set(document) <= words
    containers = document["containers"]
    assert isinstance(containers, list)
    assert set(containers[0]) | set(containers[0]["decisions"][0]) <= words


def test_a_pod_that_is_not_there(tmp_path: Path) -> None:
    document = document_of(story_of(Query.parsed("x"), read(tmp_path / "s"), 1))
    assert document["containers"] == []
    assert document["didYouMean"] is None
    assert document["history"] == {"begins": None, "ends": None, "skippedLines": 0}
