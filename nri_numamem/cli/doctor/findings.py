"""What a check found: its verdict, what it looked at, and a remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The check could not look, for example without a permission."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check about one thing."""

    check: str
    """The name of the check, stable between releases."""
    verdict: Verdict
    text: str
    """What was looked at and found, one line."""
    remedy: str = ""
    """What to do; empty for the verdict ok."""


def status_of(findings: tuple[Finding, ...]) -> int:
    """Return the exit status: 2 if a check failed, 1 if there is a warning, else 0."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return 2
    return 1 if Verdict.WARN in verdicts else 0
