"""Read YAML or JSON documents such as scenarios.

A syntax error becomes one line with file and line. JSON has its own parser, because programs write
large documents in it; the YAML parser names the line of an error in either. Both refuse repeated
keys and deep nesting.
"""

import json
import os
import sys
from pathlib import Path

from nri_numamem.config.document_limits import MANY_VALUES, is_too_deep
from nri_numamem.config.errors import UsageError
from nri_numamem.config.strict_yaml import DocumentError, decode, line_of, parse, parse_all
from nri_numamem.config.values import SettingsPath

# A scenario for 1,024 NUMA nodes with thousands of pods needs a few MiB.
SIZE_LIMIT_BYTES = 32 * 1024 * 1024


def read_file(path: Path) -> bytes:
    """Return a file's content; "-" is standard input. Raise UsageError if it cannot be read."""
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


def open_without_waiting(path: str, flags: int) -> int:
    """Open a file, as the `opener` of open(); a FIFO without a writer does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


def name_of(path: Path) -> str:
    """Return a file's name for messages."""
    return "standard input" if str(path) == "-" else str(path)


def load_document(content: bytes, origin: str) -> object:
    """Return the parsed document; raise UsageError that begins with `origin` if it is invalid."""
    text = decode(content, origin)
    if text.lstrip().startswith("{"):
        try:
            document: object = json.loads(text, object_pairs_hook=_unique)
            if not is_too_deep(document):
                return document
        except (ValueError, RecursionError):
            pass  # flow style of YAML, or an error; the YAML parser names its line
    return parse(text, origin, MANY_VALUES)[1]


def load_documents(content: bytes, origin: str) -> list[object]:
    """Return the documents of a YAML stream, or of a JSON file; raise UsageError.

    A stream without content has none.
    """
    text = decode(content, origin)
    if text.lstrip().startswith("{"):
        return [load_document(content, origin)]
    return [document for _, document in parse_all(text, origin, MANY_VALUES)]


def place_in(content: bytes, origin: str, path: SettingsPath, index: int = 0) -> str:
    """Return "ORIGIN:LINE" for a path in the document number `index`, which was read before."""
    try:
        root = parse_all(decode(content, origin), origin, MANY_VALUES)[index][0]
    except (DocumentError, IndexError):  # JSON that is no YAML, such as one with tabs
        return origin
    return f"{origin}:{line_of(root, path)}"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found
