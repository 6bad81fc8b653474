"""Read YAML or JSON documents such as configurations and scenarios.

A syntax error becomes one line with file and line. JSON has its own parser, because programs write
large documents in it; the YAML parser names the line of an error in either. Both refuse repeated
keys, deep nesting and too many values: parsed values take up to a hundred times the memory of their
text, and a value takes some 20 µs.

``yaml_loader`` has the rules for YAML. PyYAML is imported when there is text to parse. Callers see
none of its types but the root node, from which ``line_of`` finds the line of a value.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nri_numamem.config.errors import UsageError
from nri_numamem.config.values import SettingsPath

MAX_DEPTH = 64
"""Levels of a document. Objects of Kubernetes have half as many, except in schemas."""
MAX_VALUES = 32_768
"""Settings for 1,024 NUMA nodes with five page sizes each have 18,000; they take some 25 MiB."""
MANY_VALUES = 500_000
"""For commands that an administrator starts: the pods of some 2,000 manifests, in some 350 MiB."""

# A scenario for 1,024 NUMA nodes with thousands of pods needs a few MiB.
SIZE_LIMIT_BYTES = 32 * 1024 * 1024

_REMEDY = "check indentation, quotes and colons there"


class DocumentError(UsageError):
    """A document is invalid; the text is one line, "ORIGIN:LINE: PROBLEM; REMEDY"."""

    def __init__(self, origin: str, line: int, problem: str) -> None:
        super().__init__(f"{origin}:{line}: {problem}")


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
            if not _is_too_deep(document):
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
    """Return "ORIGIN:LINE" for a path in the document number `index` of a valid text."""
    try:
        root = parse_all(decode(content, origin), origin, MANY_VALUES)[index][0]
    except (DocumentError, IndexError):  # JSON that is not YAML, such as one with tabs
        return origin
    return f"{origin}:{line_of(root, path)}"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _is_too_deep(document: object) -> bool:
    """Return whether a document without aliases, such as JSON, has more than MAX_DEPTH levels."""
    level = [document]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return False
        level = inner
    return True


def parse(text: str, origin: str, max_values: int = MAX_VALUES) -> tuple[Any, object]:
    """Return the root node and the document; both None for a text without content.

    Errors begin with `origin`. Raises DocumentError.
    """
    from nri_numamem.config.yaml_loader import Loader  # noqa: PLC0415 - see the module's docstring

    with _errors(text, origin):
        loader = Loader(text, max_values, MAX_DEPTH)
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)


def parse_all(text: str, origin: str, max_values: int) -> list[tuple[Any, object]]:
    """Return root node and value of each document of a stream; raise DocumentError.

    All documents together have at most `max_values`.
    """
    from nri_numamem.config.yaml_loader import Loader  # noqa: PLC0415 - see the module's docstring

    with _errors(text, origin):
        loader = Loader(text, max_values, MAX_DEPTH)
        found: list[tuple[Any, object]] = []
        while loader.check_node():
            root = loader.get_node()
            found.append((root, loader.construct_document(root)))
        return found


@contextmanager
def _errors(text: str, origin: str) -> Iterator[None]:
    """Turn the errors of the parser into a DocumentError."""
    import yaml  # noqa: PLC0415 - see the module's docstring

    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = f"{error.problem or error.context}; {error.note or _REMEDY}"
        raise DocumentError(origin, line, problem) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(error.character)!r} is not allowed; remove it"
        raise DocumentError(origin, line, problem) from error


def decode(content: bytes, origin: str) -> str:
    """Return the text of a file's content; raise DocumentError if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(origin, line, "not UTF-8 text; save the file as UTF-8") from error


def line_of(root: Any, path: tuple[str | int, ...]) -> int:  # noqa: ANN401 - a node of PyYAML
    """Return the line, from 1, of the deepest part of the path that the text contains."""
    if root is None:
        return 1
    node, line = root, int(root.start_mark.line) + 1
    for step in path:
        found = _child_of(node, step)
        if found is None:
            break
        node, line = found[1], found[0].start_mark.line + 1
    return line


def _child_of(node: Any, step: str | int) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Return the node at which a child begins (the key in a mapping) and the child's node."""
    if isinstance(step, int):
        found = node.value[step : step + 1] if node.id == "sequence" else []
        return (found[0], found[0]) if found else None
    for key, value in node.value if node.id == "mapping" else ():
        if key.value == step:
            return key, value
    return None
