"""The unit for a program, and units that an administrator changed."""

from pathlib import Path

import pytest

from nri_numamem.cli.installation import unit

SOURCE = Path(__file__).resolve().parents[3] / "systemd/nri-numamem.service"


def test_only_the_start_differs_from_the_source() -> None:
    text = unit.unit_for("/usr/bin/nri-numamem")
    source, made = SOURCE.read_text().splitlines(), text.splitlines()
    assert made[:1] == [
        "# Written by nri-numamem install; change it with: systemctl edit nri-numamem"
    ]
    differing = [line for line in made[2:] if line not in source]
    assert differing == ["ExecStart=/usr/bin/nri-numamem run"]
    assert len(made) == len(source) + 2


def test_a_socket() -> None:
    assert "\nExecStart=/p run --socket /run/x.sock\n" in unit.unit_for("/p", "/run/x.sock")


@pytest.mark.parametrize("socket", [None, "/s"])
def test_an_unchanged_unit(socket: str | None) -> None:
    text = unit.unit_for("/p", socket)
    assert unit.is_unchanged(text)
    assert not unit.is_unchanged(text.replace("Nice=-5", "Nice=0"))
    assert not unit.is_unchanged("[Unit]\n")


def test_a_copy_of_the_source() -> None:
    assert unit.is_source(SOURCE.read_text())
    assert not unit.is_source(unit.unit_for("/p"))
