"""Every committed input goes through its target, without the fuzzer."""

from pathlib import Path

import pytest

from tests.fuzz import targets

_SIZE_LIMIT_BYTES = 200_000
_FILES = [
    pytest.param(name, file, id=f"{name}-{file.name}")
    for name in targets.NAMES
    for file in targets.corpus_files(name)
]


@pytest.mark.parametrize(("name", "file"), _FILES)
def test_an_input_is_handled(name: str, file: Path) -> None:
    targets.load(name)(file.read_bytes())


@pytest.mark.parametrize("name", targets.NAMES)
def test_a_target_takes_anything(name: str) -> None:
    target = targets.load(name)
    for data in (b"", b"\0", b"\xff" * 100, bytes(range(256))):
        target(data)


def test_the_corpora_are_small_and_each_has_its_target() -> None:
    assert {folder.name for folder in targets.CORPUS.iterdir()} == set(targets.NAMES)
    assert all(targets.corpus_files(name) for name in targets.NAMES)
    files = [file for name in targets.NAMES for file in targets.corpus_files(name)]
    assert sum(file.stat().st_size for file in files) < _SIZE_LIMIT_BYTES
