"""plugin.json: the document, and what reads it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.observe.plugin_file import (
    PluginFacts,
    PluginFileError,
    RuntimeFacts,
    Setting,
    StartMode,
    decode,
    encode,
    plugin_file_of,
    read_plugin_file,
)

FACTS = PluginFacts(
    version="1.2.3",
    pid=17,
    mode=StartMode.LAUNCHED,
    started_as="launched by the runtime",
    started_s=1_700_000_000,
    settings={
        "logLevel": Setting("debug", "NRI configuration:1"),
        "stateFile": Setting(None, "default"),
        "kubeReserved": Setting({"memory": "1Gi"}, "/var/lib/kubelet/config.yaml:7"),
    },
    name="10-nri-numamem",
    runtime=RuntimeFacts("containerd", "v2.1.9", "v0.11.0", 1_700_000_001),
    is_connected=True,
    connection_changed_s=1_700_000_001,
    ended_s=None,
)

DOCUMENT = {
    "version": 1,
    "plugin": {
        "version": "1.2.3",
        "pid": 17,
        "name": "10-nri-numamem",
        "mode": "launched",
        "started_as": "launched by the runtime",
        "started": "2023-11-14T22:13:20Z",
        "ended": None,
    },
    "connection": {"connected": True, "changed": "2023-11-14T22:13:21Z"},
    "runtime": {
        "name": "containerd",
        "version": "v2.1.9",
        "nri_version": "v0.11.0",
        "configured": "2023-11-14T22:13:21Z",
    },
    "settings": {
        "logLevel": {"value": "debug", "origin": "NRI configuration:1"},
        "stateFile": {"value": None, "origin": "default"},
        "kubeReserved": {"value": {"memory": "1Gi"}, "origin": "/var/lib/kubelet/config.yaml:7"},
    },
}


def test_the_document_of_version_1() -> None:
    """Other programs read it: a changed or removed key needs another version."""
    assert json.loads(encode(FACTS)) == DOCUMENT


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, runtime=None, is_connected=False, connection_changed_s=None, name=""),
        replace(FACTS, runtime=RuntimeFacts("cri-o", "1.30", None, 5), ended_s=6),
    ],
)
def test_a_round_trip(tmp_path: Path, facts: PluginFacts) -> None:
    path = tmp_path / "plugin.json"
    path.write_bytes(encode(facts))
    assert read_plugin_file(path) == facts


def test_keys_of_later_releases_are_ignored() -> None:
    later = {**DOCUMENT, "more": 1, "plugin": {**DOCUMENT["plugin"], "more": 1}}  # type: ignore[dict-item]
    assert decode(json.dumps(later).encode(), Path("p")) == FACTS


def test_without_a_file_there_are_no_facts(tmp_path: Path) -> None:
    assert read_plugin_file(tmp_path / "plugin.json") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a document of the plugin"),
        ("[]", "not a document of the plugin"),
        ("{}", "not a document of the plugin"),
        ("[" * 100_000, "not a document of the plugin"),
        ('{"version": 2}', "version 2; this program reads 1"),
        ('{"version": 1}', "KeyError"),
        (json.dumps({**DOCUMENT, "settings": 3}), "AttributeError"),
        (json.dumps({**DOCUMENT, "plugin": 3}), "TypeError"),
        (json.dumps(DOCUMENT).replace('"pid": 17', '"pid": 1e400'), "OverflowError"),
        (json.dumps({**DOCUMENT, "connection": {"connected": True, "changed": "x"}}), "ValueError"),
    ],
)
def test_an_unusable_document_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "plugin.json"
    path.write_text(text)
    with pytest.raises(PluginFileError) as raised:
        read_plugin_file(path)
    assert str(raised.value).startswith(f"{path}: {problem}")
    assert "\n" not in str(raised.value)


def test_a_directory_in_its_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PluginFileError, match="directory"):
        read_plugin_file(tmp_path)


def test_it_is_beside_the_state_file() -> None:
    default = plugin_file_of(Path("/var/lib/nri-numamem/nri_numamem_state"))
    assert default == Path("/var/lib/nri-numamem/plugin.json")
    assert plugin_file_of(Path("/x/other")) == Path("/x/other.plugin.json")
