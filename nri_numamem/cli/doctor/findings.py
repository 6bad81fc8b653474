"""The findings of checks: a verdict, what was found, and a remedy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import ParamSpec, TypeAlias

from nri_numamem.cli.host_files import UnreadableError
from nri_numamem.observe.plugin_file import PluginFileError

_Arguments = ParamSpec("_Arguments")


class Verdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """The check was not possible, for example without a permission."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check about one thing."""

    check: str
    """The name of the check, stable between releases."""
    verdict: Verdict
    text: str
    """What was checked and found, one line."""
    remedy: str = ""
    """What to do; empty for the verdict ok."""


def status_of(findings: tuple[Finding, ...]) -> int:
    """Return the exit status: 2 if a check failed, 1 if there is a warning, else 0."""
    verdicts = {finding.verdict for finding in findings}
    return 2 if Verdict.FAIL in verdicts else int(Verdict.WARN in verdicts)


_Check: TypeAlias = Callable[_Arguments, Iterator[Finding]]


def reads_files(
    check: str, remedy: str = "run as root"
) -> Callable[[_Check[_Arguments]], _Check[_Arguments]]:
    """Return a decorator for a check: a file that cannot be read becomes its last finding."""

    def decorated(function: _Check[_Arguments]) -> _Check[_Arguments]:
        @wraps(function)
        def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Iterator[Finding]:
            try:
                yield from function(*args, **kwargs)
            except (UnreadableError, PluginFileError) as error:
                yield Finding(check, Verdict.UNKNOWN, str(error), remedy)

        return checked

    return decorated
