"""Capabilities of this process, from files of procfs."""

from pathlib import Path

import pytest

from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CapPrm:\t0000000000200000\nCapEff:\t0000000000200000\n", True),
        ("CapPrm:\t0000000000200000\nCapEff:\t0000000000000000\n", False),
        ("CapEff:\tffffffffffdfffff\n", False),
        ("Name:\tx\n", False),
    ],
)
def test_the_effective_set_counts(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(text)
    assert has_capability(tmp_path, CAP_SYS_ADMIN) is expected


def test_without_procfs_there_is_none(tmp_path: Path) -> None:
    assert not has_capability(tmp_path, CAP_SYS_ADMIN)


def test_a_file_that_cannot_be_read_shows_none(tmp_path: Path) -> None:
    (tmp_path / "self/status").mkdir(parents=True)
    assert not has_capability(tmp_path, CAP_SYS_ADMIN)
