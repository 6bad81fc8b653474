"""Upgrade and rollback: a version reads what earlier releases wrote, and keeps what later ones did.

The plugin runs as a process. A folder for each release has files that its own plugin wrote.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.config.settings import settings_from_mapping, settings_to_mapping
from nri_numamem.engine.core.snapshot import VERSION as STATE_VERSION
from nri_numamem.observe.history import lines
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.plugin_file import read_plugin_file
from nri_numamem.version import VERSION
from tests.releases.life import NAMES, live, resume
from tests.releases.record import HERE, record
from tests.simulated_host import SimulatedHost

RELEASES = sorted(folder for folder in HERE.iterdir() if (folder / NAMES[0]).exists())

pytestmark = pytest.mark.timeout(600)


def name_of(release: Path) -> str:
    return release.name


def put_back(release: Path, host: SimulatedHost) -> None:
    """Replace the state directory by that of a release."""
    shutil.rmtree(host.state_file.parent)
    host.state_file.parent.mkdir()
    for name in NAMES:
        shutil.copyfile(release / name, host.state_file.with_name(name))


def change_state(host: SimulatedHost, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change the state file's envelope, whose payload is an object here; return its new bytes."""
    document = json.loads(host.state_file.read_text())
    document["payload"] = json.loads(document["payload"])
    change(document)
    document["payload"] = json.dumps(document["payload"])
    document["crc32"] = zlib.crc32(document["payload"].encode())
    host.state_file.write_text(json.dumps(document))
    return host.state_file.read_bytes()


def warnings(host: SimulatedHost) -> list[str]:
    """Return the events above the level info since the last call."""
    found = [
        record["event"] for record in host.records() if record["level"] not in ("info", "debug")
    ]
    host.log.unlink()
    return found


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_the_state_of_a_release_is_read(release: Path, simulated_host: SimulatedHost) -> None:
    store, entries = live(simulated_host)
    before = warnings(simulated_host)
    put_back(release, simulated_host)
    history = read_history(simulated_host.state_file).entries
    assert "admitted" in {entry.event for entry in history}
    assert resume(simulated_host, store) == entries
    (restored,) = simulated_host.records("state_restored")
    assert restored["containers"] == 2
    assert warnings(simulated_host) == before
    after = read_history(simulated_host.state_file)
    assert after.entries[: len(history)] == history
    assert (len(after.entries) > len(history), after.skipped_lines) == (True, 0)


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_the_description_of_a_release_is_read(release: Path) -> None:
    facts = read_plugin_file(release / "plugin.json")
    assert facts is not None
    assert facts.version == release.name


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_the_configuration_of_a_release_is_valid(release: Path) -> None:
    settings_from_mapping(yaml.safe_load((release / "config.yaml").read_text()))


def test_this_version_has_a_folder_with_every_key() -> None:
    """A release is recorded before its successors can change a format."""
    release = HERE / VERSION
    assert release in RELEASES
    document = yaml.safe_load((release / "config.yaml").read_text())
    assert document.keys() == settings_to_mapping(settings_from_mapping(document)).keys()
    envelope = json.loads((release / NAMES[0]).read_text())
    assert envelope["version"] == STATE_VERSION


@pytest.mark.slow
def test_a_release_is_recorded(tmp_path: Path) -> None:
    """The present version still writes the formats of its folder."""
    record(tmp_path / "new")
    found, kept = (
        json.loads(json.loads((folder / NAMES[0]).read_text())["payload"])
        for folder in (tmp_path / "new", HERE / VERSION)
    )
    for payload in (found, kept):
        for holder in payload["holders"]:
            assert holder.pop("since") > 0
    assert found == kept


def test_without_the_state_file_the_reservation_of_an_ended_container_is_lost(
    simulated_host: SimulatedHost,
) -> None:
    """So the tests beside this one show that a file was read."""
    store, entries = live(simulated_host)
    simulated_host.state_file.unlink()
    assert resume(simulated_host, store) != entries


def test_unknown_keys_and_reasons_of_a_later_release_are_ignored(
    simulated_host: SimulatedHost,
) -> None:
    store, entries = live(simulated_host)
    before = warnings(simulated_host)

    def change(document: dict[str, Any]) -> None:
        document["later"] = {"a": 1}
        document["payload"]["later"] = [1]
        for holder in document["payload"]["holders"]:
            holder |= {"later": None, "event": "placed_by_a_later_release"}

    change_state(simulated_host, change)
    assert resume(simulated_host, store) == entries
    assert simulated_host.records("state_restored")
    assert warnings(simulated_host) == before


def test_a_state_file_of_a_later_format_is_kept_and_its_containers_stay(
    simulated_host: SimulatedHost, capsys: pytest.CaptureFixture[str]
) -> None:
    store, entries = live(simulated_host)
    later = change_state(
        simulated_host, lambda document: document.update(version=STATE_VERSION + 1)
    )
    assert main(["reset", "--dry-run", "--state-file", str(simulated_host.state_file)]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"written by version {STATE_VERSION + 1}; this is version {STATE_VERSION}" in line
    after = resume(simulated_host, store)
    kept = simulated_host.state_file.with_name(f"{NAMES[0]}.version-{STATE_VERSION + 1}")
    assert kept.read_bytes() == later
    (record,) = simulated_host.records("state_file_other_version")
    assert (record["level"], record["renamed_to"]) == ("warning", kept.name)
    # What the runtime reports is placed as before; only the ended container's memory is free again.
    assert isinstance(after, dict)
    assert isinstance(entries, dict)
    (uid,) = entries
    assert after == {uid: {"server": entries[uid]["server"]}}
    # The later release does not read the file that it left, but the newer one of this release.
    assert json.loads(simulated_host.state_file.read_text())["version"] == STATE_VERSION


def test_a_history_of_a_later_format_is_kept(simulated_host: SimulatedHost) -> None:
    store, _entries = live(simulated_host)
    segment = simulated_host.state_file.with_name("history-0.log")
    header = lines._sealed({"history": lines.VERSION + 1, "number": 1})
    later = header + segment.read_bytes().split(b"\n", 1)[1]
    segment.write_bytes(later)
    resume(simulated_host, store)
    (record,) = simulated_host.records("history_unusable")
    assert segment.with_name(record["renamed_to"]).read_bytes() == later
    assert read_history(simulated_host.state_file).skipped_lines == 0


def test_a_description_of_a_later_format_is_replaced(simulated_host: SimulatedHost) -> None:
    store, _entries = live(simulated_host)
    path = simulated_host.state_file.with_name("plugin.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "version": 2}))
    resume(simulated_host, store)
    facts = read_plugin_file(path)
    assert facts is not None
    assert facts.version == VERSION


def test_a_setting_of_a_later_release_is_one_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("logLevel: info\nsettingOfALaterRelease: 1\n")
    assert main(["config", "check", str(file)]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file}:2" in line
    assert "settingOfALaterRelease" in line
