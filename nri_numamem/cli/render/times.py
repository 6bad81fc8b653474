"""Times for people and documents."""

from datetime import UTC, datetime

# The last second of the year 9999.
_LAST_S = 253_402_300_799


def format_time(seconds: float) -> str:
    """Return a Unix time as ISO 8601 in UTC: "2026-01-31T12:00:00Z"."""
    return f"{_date(seconds):%Y-%m-%dT%H:%M:%SZ}"


def time_text(seconds: float) -> str:
    """Return a Unix time for people: "2026-01-31 12:00:00 UTC"."""
    return f"{_date(seconds):%Y-%m-%d %H:%M:%S UTC}"


def _date(seconds: float) -> datetime:
    """Return the date of a Unix time; times outside of the years 1970 to 9999 become their ends."""
    return datetime.fromtimestamp(int(min(max(seconds, 0), _LAST_S)), UTC)
