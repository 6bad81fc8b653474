"""Read the plugin's configuration: YAML (JSON is part of it) to ``Settings``, and flags.

The text comes from a file, or from the runtime at Configure. Whatever is wrong with it becomes one
line, "ORIGIN:LINE: PROBLEM; REMEDY". Which settings exist is known to ``engine.settings`` only;
here a complaint of it gets its line number.

PyYAML is imported when there is text to parse: most installations have none.
"""

import functools
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri_numamem.cli.errors import UsageError
from nri_numamem.engine.settings import (
    MemoryReservation,
    Settings,
    SettingsError,
    settings_from_mapping,
)
from nri_numamem.memorymanager.reserved import ReservedMemoryError, parse_reserved_memory

if TYPE_CHECKING:
    import yaml

# Settings for 1,024 NUMA nodes with five page sizes each need 200 KiB.
_TEXT_LIMIT = 1024 * 1024

_SYNTAX_REMEDY = "check indentation, quotes and colons there"


class ConfigurationError(UsageError):
    """The configuration cannot be used; the text is one line that names origin and line."""

    def __init__(self, origin: str, line: int, problem: str) -> None:
        super().__init__(f"{origin}:{line}: {problem}")


def load_file(path: Path) -> Settings:
    """Return the settings in a file; ConfigurationError when it cannot be read or used."""
    try:
        with path.open("rb") as file:
            content = file.read(_TEXT_LIMIT + 1)
    except OSError as error:
        problem = f"{error.strerror or error}; give the path of a readable file"
        raise ConfigurationError(str(path), 1, problem) from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = "this is not UTF-8 text; save the file as UTF-8"
        raise ConfigurationError(str(path), line, problem) from error
    return load_text(text, str(path))


def parse_reserved(values: Iterable[str]) -> tuple[MemoryReservation, ...]:
    """Return the reservations of all uses of ``--reserved-memory``; UsageError names the bad one.

    A further use adds to the former ones; an empty value forgets them, as in the kubelet.
    """
    reservations: tuple[MemoryReservation, ...] = ()
    for value in values:
        try:
            entries = parse_reserved_memory(value)
        except ReservedMemoryError as error:
            remedy = "write NODE:TYPE=QUANTITY, such as 0:memory=1Gi"
            raise UsageError(f"--reserved-memory {value!r}: {error}; {remedy}") from error
        added = tuple(MemoryReservation(entry.numa_node, entry.limits) for entry in entries)
        reservations = reservations + added if value else ()
    return reservations


def load_text(text: str, origin: str) -> Settings:
    """Return the settings in a YAML text; empty text gives the defaults.

    `origin` names the text in errors, e.g. the file it is from. Raises ConfigurationError.
    """
    if not text.strip():
        return Settings()
    if len(text) > _TEXT_LIMIT:
        problem = f"more than {_TEXT_LIMIT} characters; this is no configuration of the plugin"
        raise ConfigurationError(origin, 1, problem)
    root, document = _parse(text, origin)
    try:
        return settings_from_mapping(document)
    except SettingsError as error:
        raise ConfigurationError(origin, _line_of(root, error.path), str(error)) from error


def _parse(text: str, origin: str) -> tuple[Any, object]:
    """Return the root node, for line numbers, and the document; both None when there is none."""
    import yaml  # noqa: PLC0415 - see the module's docstring

    try:
        loader = _loader_class()(text)
        root = loader.get_single_node()
        return root, None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = f"{error.problem or error.context}; {_SYNTAX_REMEDY}"
        raise ConfigurationError(origin, line, problem) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(error.character)!r} is not allowed; remove it"
        raise ConfigurationError(origin, line, problem) from error
    except RecursionError as error:
        problem = "nested too deeply; this is no configuration of the plugin"
        raise ConfigurationError(origin, 1, problem) from error


@functools.cache
def _loader_class() -> "type[yaml.SafeLoader]":
    """Return the safe loader that refuses repeated keys and names the line of a bad scalar."""
    import yaml  # noqa: PLC0415 - see the module's docstring

    class Loader(yaml.SafeLoader):
        def construct_mapping(
            self,
            node: yaml.MappingNode,
            deep: bool = False,
        ) -> dict[Hashable, Any]:
            seen: set[str] = set()
            # Not so after a wrong tag, which the base class complains about.
            pairs = node.value if node.id == "mapping" else ()
            for key, _ in pairs:
                text = key.value if isinstance(key, yaml.ScalarNode) else None
                if text in seen:
                    problem = f"the key {text!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                if text is not None:
                    seen.add(text)
            return super().construct_mapping(node, deep=deep)

        def construct_object(
            self,
            node: yaml.Node,
            deep: bool = False,
        ) -> Any:  # noqa: ANN401 - PyYAML's
            try:
                return super().construct_object(node, deep=deep)
            # What PyYAML lets through for 2020-99-99, !!bool x, !!timestamp x and !!int "".
            except (ValueError, KeyError, AttributeError, IndexError) as error:
                problem = f"{error} in a value of type {node.tag.rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, node.start_mark
                ) from error

    return Loader


def _line_of(root: Any, path: tuple[str | int, ...]) -> int:  # noqa: ANN401 - a node of PyYAML
    """Return the line of the deepest part of the path that is in the text, from 1."""
    node, line = root, 1 if root is None else root.start_mark.line + 1
    for step in path:
        found = _child_of(node, step)
        if found is None:
            break
        node, line = found[1], found[0].start_mark.line + 1
    return line


def _child_of(node: Any, step: str | int) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Return the node where a child begins (its key, in a mapping) and the child's node."""
    if isinstance(step, int):
        return node.value[step], node.value[step]
    for key, value in node.value if node.id == "mapping" else ():
        if key.value == step:
            return key, value
    return None
