"""Put into the committed corpora what longer runs of run.py learned, and keep them small.

    tests/fuzz/minimize.py [--most N] [TARGET ...]

Of the committed inputs and those in build/fuzz, the one stays that takes the most steps from line
to line within the package, then the one that adds the most to it, and so on, up to N. Inputs that
a person has given a name stay besides.
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
# An input that is larger has no place in the repository.
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
    taken = {data: _steps(target, data) for data in inputs if len(data) <= _INPUT_LIMIT_BYTES}
    kept: list[bytes] = []
    while taken and len(kept) < most:
        best = max(taken, key=lambda data: (len(taken[data]), -len(data), data))
        new = taken.pop(best)
        if not new:
            break
        kept.append(best)
        taken = {data: steps - new for data, steps in taken.items()}
    for file in targets.corpus_files(name):
        if _MADE_NAME.fullmatch(file.name):
            file.unlink()
    for data in kept:
        digest = hashlib.sha256(data).hexdigest()
        (targets.CORPUS / name / digest[:_DIGITS]).write_bytes(data)
    print(f"{name}: {len(kept)} inputs, {sum(map(len, kept))} bytes")


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
