"""Sections of CHANGELOG.md: `## VERSION - YYYY-MM-DD` for a release, and `## Unreleased`."""

import datetime as dt
import re
from dataclasses import dataclass

from release.errors import ReleaseError

UNRELEASED = "Unreleased"

# The date of artefacts before the first release.
FIRST_DATE = dt.date(2026, 1, 1)

_HEADING = re.compile(r"^## (?P<name>\S+)(?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """A version's changes; `date` is None before its release."""

    name: str
    date: dt.date | None
    text: str


def sections(text: str) -> list[Section]:
    """Return all sections, in the order of the file. Raises ReleaseError for an impossible date."""
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [
        Section(heading["name"], _date(heading["date"]), text[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    ]


def notes(text: str, version: str, *, is_unreleased: bool) -> Section:
    """Return the section of a release. Raises ReleaseError if it is missing or has no date.

    With `is_unreleased` the section Unreleased serves for a version that has none.
    """
    found = {section.name: section for section in sections(text)}
    section = found.get(version)
    if section is None and is_unreleased:
        section = found.get(UNRELEASED)
    if section is None:
        raise ReleaseError(
            f"CHANGELOG.md: no section {version}; add the line '## {version} - YYYY-MM-DD'"
        )
    if section.date is None and not is_unreleased:
        raise ReleaseError(f"CHANGELOG.md: section {version} has no date; add ' - YYYY-MM-DD'")
    if not section.text:
        raise ReleaseError(f"CHANGELOG.md: section {section.name} is empty")
    return section


def release_date_s(text: str) -> int:
    """Return the date of the newest release as seconds since 1970: that of all artefacts."""
    date = next((section.date for section in sections(text) if section.date), FIRST_DATE)
    return int(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp())


def _date(text: str | None) -> dt.date | None:
    try:
        return None if text is None else dt.date.fromisoformat(text)
    except ValueError:
        raise ReleaseError(f"CHANGELOG.md: {text} is not a date") from None
