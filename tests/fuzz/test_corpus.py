"""Every target accepts every committed input, without the fuzzer."""

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
def test_a_target_accepts_its_corpus(name: str, file: Path) -> None:
    targets.load(name)(file.read_bytes())


@pytest.mark.parametrize("name", targets.NAMES)
def test_a_target_accepts_any_bytes(name: str) -> None:
    target = targets.load(name)
    for data in (b"", b"\0", b"\xff" * 100, bytes(range(256))):
        target(data)


def test_each_target_has_a_corpus_and_all_are_small() -> None:
    assert {folder.name for folder in targets.CORPUS.iterdir()} == set(targets.NAMES)
    assert all(targets.corpus_files(name) for name in targets.NAMES)
    files = [file for name in targets.NAMES for file in targets.corpus_files(name)]
    assert sum(file.stat().st_size for file in files) < _SIZE_LIMIT_BYTES


def test_text_targets_exist() -> None:
    assert set(targets.TEXT_TARGETS) <= set(targets.NAMES)
