"""PyYAML's safe loader with stricter rules.

Repeated keys and merge keys are errors, and so are documents over the limits that ``documents``
sets. An alias counts as all the values to which it refers: a program that follows aliases would see
a few lines as any number of values. Dates stay text, since no setting is a date, and so do the
numbers that only YAML 1.1 has: 010 (octal 8), 1_000 and 1:30 (90).
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$", re.ASCII)
# "12e6" without a point is text, hence a Kubernetes quantity.
_DECIMAL_FRACTION = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$",
    re.ASCII,
)


class Loader(yaml.SafeLoader):
    """Loads the documents of a text, together at most `max_values`, each at most `max_depth` deep.

    Its errors are those of PyYAML, whose texts are lines without the place.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's
        first: [(tag, pattern) for tag, pattern in found if tag not in (_TIMESTAMP, _INT, _FLOAT)]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str, max_values: int, max_depth: int) -> None:
        super().__init__(text)
        self._max_values, self._max_depth = max_values, max_depth
        self._values = self._depth = 0
        self._deepest = 0
        """The largest depth in the present value and in those before it in the same value."""
        self._anchored: dict[str, tuple[int, int]] = {}
        """Anchor -> number and levels of the values in it."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; limits and merge keys are checked here."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            self._count_alias(event)
        else:
            node = self._counted(event, parent, index)
        if node is not None and node.tag == _MERGE:
            raise _error("the merge key << is not supported", "write out its keys instead", event)
        return node

    def _counted(
        self, event: yaml.NodeEvent, parent: yaml.Node | None, index: int
    ) -> yaml.Node | None:
        """Return the next node, not an alias, and count the values in it."""
        values, deepest = self._values, self._deepest
        if event.anchor is not None:
            self._anchored.pop(event.anchor, None)  # that of an earlier document
        self._deepest = self._depth
        self._count(event, 1, 1)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._anchored[event.anchor] = self._values - values, self._deepest - self._depth
        self._deepest = max(deepest, self._deepest)
        return node

    def _count_alias(self, event: yaml.AliasEvent) -> None:
        """Count the values to which an alias refers."""
        if event.anchor not in self._anchored:
            problem = f"the alias *{event.anchor:.60} is inside of its own value"
            raise _error(problem, "remove it", event)
        self._count(event, *self._anchored[event.anchor])

    def _count(self, event: yaml.NodeEvent, values: int, levels: int) -> None:
        self._values += values
        self._deepest = max(self._deepest, self._depth + levels)
        if self._deepest > self._max_depth:
            problem = f"nested too deeply, more than {self._max_depth} levels"
            raise _error(problem, "simplify it", event)
        if self._values > self._max_values:
            problem = f"more than {self._max_values} values"
            raise _error(problem, "make it shorter, and use fewer aliases", event)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping whose keys differ."""
        seen: set[str] = set()
        for key, _ in node.value if node.id == "mapping" else ():
            text = key.value if isinstance(key, yaml.ScalarNode) else None
            if text in seen:
                raise _error(f"the key {text!r} is given twice", "keep one of the two", key)
            if text is not None:
                seen.add(text)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401
        """Return the value of a node; an invalid scalar has its line."""
        try:
            return super().construct_object(node, deep=deep)
        # PyYAML raises these for !!bool x, !!timestamp x and !!int "".
        except (ValueError, KeyError, AttributeError, IndexError) as error:
            problem = f"{error} in a value of type {node.tag.rpartition(':')[2]}"
            mark = node.start_mark
            raise yaml.constructor.ConstructorError(None, None, problem, mark) from error


Loader.add_implicit_resolver(_INT, _DECIMAL, list("-+0123456789"))
Loader.add_implicit_resolver(_FLOAT, _DECIMAL_FRACTION, list("-+0123456789."))


def _error(problem: str, remedy: str, place: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = place.start_mark
    return yaml.constructor.ConstructorError(None, None, problem, mark, remedy)
