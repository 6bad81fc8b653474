"""The sections of a changelog."""

import datetime as dt
from pathlib import Path

import pytest
from release import changelog
from release.errors import ReleaseError

TEXT = """\
# Changelog

## Unreleased

- new

## 0.2.0 - 2026-03-04

### Added

- second

## 0.1.0

- first
"""


def test_sections_have_name_date_and_text() -> None:
    found = [(one.name, one.date, one.text) for one in changelog.sections(TEXT)]
    date = dt.date(2026, 3, 4)
    assert found == [
        ("Unreleased", None, "- new"),
        ("0.2.0", date, "### Added\n\n- second"),
        ("0.1.0", None, "- first"),
    ]


def test_a_release_needs_its_section_with_a_date() -> None:
    assert changelog.notes(TEXT, "0.2.0", is_unreleased=False).text.endswith("- second")
    with pytest.raises(ReleaseError, match=r"no section 0\.3\.0; add the line '## 0\.3\.0 - YYYY"):
        changelog.notes(TEXT, "0.3.0", is_unreleased=False)
    with pytest.raises(ReleaseError, match=r"section 0\.1\.0 has no date"):
        changelog.notes(TEXT, "0.1.0", is_unreleased=False)
    with pytest.raises(ReleaseError, match=r"section 0\.4\.0 is empty"):
        changelog.notes("## 0.4.0 - 2026-01-02\n", "0.4.0", is_unreleased=False)


def test_without_a_release_the_unreleased_section_serves() -> None:
    assert changelog.notes(TEXT, "0.3.0", is_unreleased=True).name == "Unreleased"
    assert changelog.notes(TEXT, "0.1.0", is_unreleased=True).name == "0.1.0"
    with pytest.raises(ReleaseError, match="no section"):
        changelog.notes("## 0.1.0\n", "0.3.0", is_unreleased=True)


def test_the_date_of_artefacts() -> None:
    seconds = changelog.release_date_s(TEXT)
    assert dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat() == ("2026-03-04T00:00:00+00:00")
    assert changelog.release_date_s("## Unreleased\n") == 1767225600  # 2026-01-01
    with pytest.raises(ReleaseError, match="2026-02-30 is not a date"):
        changelog.release_date_s("## 1.0 - 2026-02-30\n")


def test_the_changelog_of_this_project_is_read() -> None:
    text = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text()
    assert changelog.sections(text)[0].text
