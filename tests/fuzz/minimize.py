"""Add the findings of longer runs of run.py to the committed corpora, and keep these small.

    tests/fuzz/minimize.py [--most N] [TARGET ...]

It selects up to N inputs from the committed ones and those in build/fuzz: first the input with the
most transitions between lines of the package, then repeatedly the one that adds the most new
transitions. Inputs with a name other than a digest are always selected.
"""

import argparse
import hashlib
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz import targets  # noqa: E402 - found by the line above

_PACKAGE = str(ROOT / "nri_numamem")
# Larger inputs are not committed.
_INPUT_LIMIT_BYTES = 4096
_DIGITS = 12
_MADE_NAME = re.compile(f"[0-9a-f]{{{_DIGITS}}}")

Step = tuple[str, int, int]
"""File, and the lines before and after."""


def main() -> int:
    """Minimize the corpora of the targets that the command line names."""
    parser = argparse.ArgumentParser(description="Minimize the fuzzer's corpora.")
    parser.add_argument("--most", type=int, default=10, help="inputs to keep (%(default)s)")
    parser.add_argument("targets", nargs="*", default=targets.NAMES, metavar="TARGET")
    args = parser.parse_args()
    for name in args.targets:
        _minimize(name, args.most)
    return 0


def _minimize(name: str, most: int) -> None:
    target = targets.load(name)
    found = ROOT / "build" / "fuzz" / name / "corpus"
    files = [*targets.corpus_files(name), *found.glob("*")]
    inputs = {file.read_bytes() for file in files}
    candidates = {data: _steps(target, data) for data in inputs if len(data) <= _INPUT_LIMIT_BYTES}
    selected: list[bytes] = []
    while candidates and len(selected) < most:
        best = max(candidates, key=lambda data: (len(candidates[data]), -len(data), data))
        new = candidates.pop(best)
        if not new:
            break
        selected.append(best)
        candidates = {data: steps - new for data, steps in candidates.items()}
    for file in targets.corpus_files(name):
        if _MADE_NAME.fullmatch(file.name):
            file.unlink()
    for data in selected:
        digest = hashlib.sha256(data).hexdigest()
        (targets.CORPUS / name / digest[:_DIGITS]).write_bytes(data)
    print(f"{name}: {len(selected)} inputs, {sum(map(len, selected))} bytes")


def _steps(target: targets.Target, data: bytes) -> set[Step]:
    steps: set[Step] = set()
    before: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - itself
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            return None
        steps.add((file, before.get(frame, 0), frame.f_lineno))
        if event == "return":
            before.pop(frame, None)
        else:
            before[frame] = frame.f_lineno
        return trace

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return steps


if __name__ == "__main__":
    sys.exit(main())
