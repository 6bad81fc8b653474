"""The cache of images; mmdebstrap is replaced by a function."""

import io
import os
import time
from pathlib import Path

import pytest

from tests.machines import image
from tests.machines.image import CRI, PLAIN, ImageError, build, ensure, key
from tests.machines.progress import Progress

_QUIET = Progress(io.StringIO())


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the suites for which mmdebstrap ran; sid fails if a file named so exists."""
    suites: list[str] = []

    def bootstrap(suite: str, _partial: Path, _variant: image.Variant) -> None:
        suites.append(suite)
        if (tmp_path / suite).exists():
            raise ImageError(f"mmdebstrap cannot make {suite}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(image, "_bootstrap", bootstrap)
    monkeypatch.setattr(image, "_make_disk", lambda _partial: None)
    return suites


def test_an_image_is_built_once(built: list[str]) -> None:
    assert not build("trixie").is_cached()
    first = ensure("trixie", PLAIN, _QUIET)
    assert build("trixie").is_cached()
    assert ensure("trixie", PLAIN, _QUIET) == first
    assert (first.source, built) == ("trixie", ["trixie"])


def test_another_recipe_replaces_the_image(
    built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure("trixie", PLAIN, _QUIET)
    monkeypatch.setattr(image, "PACKAGES", ("systemd",))
    assert not build("trixie").is_cached()
    assert ensure("trixie", PLAIN, _QUIET) != first
    assert not first.directory.exists()
    assert len(built) == 2


def test_a_variant_has_an_image_of_its_own(built: list[str]) -> None:
    plain, cri = (ensure("sid", variant, _QUIET) for variant in (PLAIN, CRI))
    assert plain.directory.exists()
    assert cri.directory.exists()
    assert key(PLAIN) != key(CRI)


def test_sid_has_a_fallback_for_a_day(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "sid").touch()
    made = ensure("sid", PLAIN, _QUIET)
    assert (made.source, built) == ("forky", ["sid", "forky"])
    assert build("sid").is_cached()
    yesterday_s = time.time() - 25 * 3600
    os.utime(made.directory / "source", (yesterday_s, yesterday_s))
    assert not build("sid").is_cached()


def test_a_failed_build_is_no_image(built: list[str], tmp_path: Path) -> None:
    (tmp_path / "trixie").touch()
    with pytest.raises(ImageError, match="cannot make trixie"):
        ensure("trixie", PLAIN, _QUIET)
    assert not build("trixie").is_cached()
    (tmp_path / "trixie").unlink()
    assert ensure("trixie", PLAIN, _QUIET).source == "trixie"
