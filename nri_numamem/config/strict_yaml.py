"""A strict YAML parser whose errors name file and line.

``yaml_loader`` has its rules. PyYAML is imported when there is text to parse. Callers see none of
its types but the root node, from which ``line_of`` finds the line of a value.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nri_numamem.config.document_limits import MAX_VALUES
from nri_numamem.config.errors import UsageError

_REMEDY = "check indentation, quotes and colons there"


class DocumentError(UsageError):
    """A document is invalid; the text is one line, "ORIGIN:LINE: PROBLEM; REMEDY"."""

    def __init__(self, origin: str, line: int, problem: str) -> None:
        super().__init__(f"{origin}:{line}: {problem}")


def parse(text: str, origin: str, max_values: int = MAX_VALUES) -> tuple[Any, object]:
    """Return the root node and the document; both None for a text without content.

    Errors begin with `origin`. Raises DocumentError.
    """
    from nri_numamem.config.yaml_loader import Loader  # noqa: PLC0415 - see the module's docstring

    with _errors(text, origin):
        loader = Loader(text, max_values)
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)


def parse_all(text: str, origin: str, max_values: int) -> list[tuple[Any, object]]:
    """Return root node and value of each document of a stream; raise DocumentError.

    All documents together have at most `max_values`.
    """
    from nri_numamem.config.yaml_loader import Loader  # noqa: PLC0415 - see the module's docstring

    with _errors(text, origin):
        loader = Loader(text, max_values)
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
