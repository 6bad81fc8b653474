"""What is printed of steps and of what remains."""

from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.perform import perform, print_nothing, print_remaining
from nri_numamem.cli.installation.steps import Write


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_dry_run: bool) -> None:
    perform([Write("/a", "x"), Write("/b", "x")], Host(tmp_path), is_dry_run=is_dry_run)
    print_nothing(is_dry_run=is_dry_run)
    assert (tmp_path / "a").exists() is not is_dry_run
    assert capsys.readouterr().out == (
        "would write /a\nwould write /b\nnothing to change\n"
        if is_dry_run
        else "wrote /a\nwrote /b\nnothing changed\n"
    )


def test_remaining(capsys: pytest.CaptureFixture[str]) -> None:
    print_remaining([])
    print_remaining(["a", "b"])
    assert capsys.readouterr().out == "\nremaining:\n  a\n  b\n"
