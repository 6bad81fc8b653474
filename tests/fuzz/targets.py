"""The targets: modules with ``one_input(data: bytes) -> None``, which raises for a bug.

Neither this module nor a target imports the fuzzer, so tests can replay the corpus without it.
"""

import importlib
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CORPUS = FOLDER / "corpus"
PREFIX = "fuzz_"
NAMES = tuple(path.stem.removeprefix(PREFIX) for path in sorted(FOLDER.glob(f"{PREFIX}*.py")))

# Targets of text; the fuzzer combines the words of words.dict for them.
TEXT_TARGETS = ("configuration", "scenario", "snapshot", "state_file")

Target = Callable[[bytes], None]


def load(name: str) -> Target:
    """Return a target's function."""
    module = importlib.import_module(f"tests.fuzz.{PREFIX}{name}")
    target: Target = module.one_input
    return target


def corpus_files(name: str) -> list[Path]:
    """Return a target's committed inputs."""
    return sorted(path for path in (CORPUS / name).iterdir() if path.is_file())
