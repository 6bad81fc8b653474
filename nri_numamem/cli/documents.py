"""Read YAML or JSON documents that people write, such as scenarios.

What a parser finds wrong becomes one line that names file and line. JSON is read by its own
parser, since machines write large documents in it. Repeated keys are refused in both.
"""

import functools
import json
import sys
from pathlib import Path

from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.strict_yaml import decode, parse

# A scenario for 1,024 NUMA nodes with thousands of pods needs a few MiB.
SIZE_LIMIT_BYTES = 32 * 1024 * 1024


def read_file(path: Path) -> bytes:
    """Return a file's content, "-" being standard input; UsageError when it cannot be read."""
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(SIZE_LIMIT_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        problem = f"{error.strerror or error}; give the path of a readable file"
        raise UsageError(f"{name_of(path)}: {problem}") from error
    if len(content) > SIZE_LIMIT_BYTES:
        raise UsageError(
            f"{name_of(path)}: more than {SIZE_LIMIT_BYTES} bytes; give a smaller file"
        )
    return content


def name_of(path: Path) -> str:
    """Return how a file is called in messages."""
    return "standard input" if str(path) == "-" else str(path)


def load_document(content: bytes, origin: str) -> object:
    """Return the parsed document; UsageError, which begins with `origin`, when there is none."""
    text = decode(content, origin)
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=functools.partial(_unique, origin))
        except (ValueError, RecursionError):
            pass  # flow style of YAML, or a mistake that the YAML parser names with its line
    return parse(text, origin)[1]


def _unique(origin: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UsageError(f"{origin}: the key {twice[:60]!r} is given twice; keep one of the two")
    return found
