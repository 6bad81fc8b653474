"""Times for people and documents."""

from datetime import UTC, datetime


def format_time(seconds: float) -> str:
    """Return a Unix time as ISO 8601 in UTC: "2026-01-31T12:00:00Z"."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"
