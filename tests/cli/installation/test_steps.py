"""One line for each kind of step."""

from pathlib import Path

import pytest

from nri_numamem.cli.installation.steps import (
    Copy,
    Link,
    Move,
    Remove,
    Service,
    Step,
    Write,
    describe,
)

LINES: list[tuple[Step, str, str]] = [
    (Write("/a", "text"), "wrote /a", "would write /a"),
    (Copy("/a", Path("/b")), "copied /b to /a", "would copy /b to /a"),
    (Link("/a", "/b"), "linked /a -> /b", "would link /a -> /b"),
    (Move("/a", "/b"), "moved /a to /b", "would move /a to /b"),
    (Remove("/a"), "removed /a", "would remove /a"),
    (Service(("stop", "x")), "ran systemctl stop x", "would run systemctl stop x"),
]


@pytest.mark.parametrize(("step", "done", "planned"), LINES)
def test_lines(step: Step, done: str, planned: str) -> None:
    assert describe(step, is_done=True) == done
    assert describe(step, is_done=False) == planned
