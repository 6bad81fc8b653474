"""A strict YAML parser whose errors name file and line.

Repeated keys are errors. Dates stay text, since no setting is a date, and so do the numbers that
only YAML 1.1 has: 010 (octal 8), 1_000 and 1:30 (90). Only this module imports PyYAML, when there
is text to parse. Callers see none of its types but the root node, from which ``line_of`` finds the
line of a value.
"""

import functools
import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nri_numamem.config.errors import UsageError

if TYPE_CHECKING:
    import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$", re.ASCII)
# "12e6" without a point is text, hence a Kubernetes quantity.
_DECIMAL_FRACTION = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$",
    re.ASCII,
)
_REMEDY = "check indentation, quotes and colons there"


class DocumentError(UsageError):
    """A document is invalid; the text is one line, "ORIGIN:LINE: PROBLEM; REMEDY"."""

    def __init__(self, origin: str, line: int, problem: str) -> None:
        super().__init__(f"{origin}:{line}: {problem}")


def parse(text: str, origin: str) -> tuple[Any, object]:
    """Return the root node and the document; both None for a text without content.

    Errors begin with `origin`. Raises DocumentError.
    """
    with _errors(text, origin):
        loader = _loader_class()(text)
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)


def parse_all(text: str, origin: str) -> list[tuple[Any, object]]:
    """Return root node and value of each document of a stream; raise DocumentError."""
    with _errors(text, origin):
        loader = _loader_class()(text)
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
    except RecursionError as error:
        raise DocumentError(origin, 1, "nested too deeply; simplify it") from error


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


@functools.cache
def _loader_class() -> "type[yaml.SafeLoader]":
    """Return a safe loader that refuses repeated keys and names the line of an invalid scalar."""
    import yaml  # noqa: PLC0415 - see the module's docstring

    replaced = (_TIMESTAMP, _INT, _FLOAT)

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's
            first: [(tag, pattern) for tag, pattern in found if tag not in replaced]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[Hashable, Any]:
            seen: set[str] = set()
            for key, _ in node.value if node.id == "mapping" else ():
                text = key.value if isinstance(key, yaml.ScalarNode) else None
                if text in seen:
                    problem, remedy = f"the key {text!r} is given twice", "keep one of the two"
                    mark = key.start_mark
                    raise yaml.constructor.ConstructorError(None, None, problem, mark, remedy)
                if text is not None:
                    seen.add(text)
            return super().construct_mapping(node, deep=deep)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
            try:
                return super().construct_object(node, deep=deep)
            # PyYAML raises these for !!bool x, !!timestamp x and !!int "".
            except (ValueError, KeyError, AttributeError, IndexError) as error:
                problem = f"{error} in a value of type {node.tag.rpartition(':')[2]}"
                mark = node.start_mark
                raise yaml.constructor.ConstructorError(None, None, problem, mark) from error

    Loader.add_implicit_resolver(_INT, _DECIMAL, list("-+0123456789"))
    Loader.add_implicit_resolver(_FLOAT, _DECIMAL_FRACTION, list("-+0123456789."))
    return Loader
