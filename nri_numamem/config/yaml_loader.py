"""PyYAML's safe loader with stricter rules.

Repeated keys and merge keys are errors, and so are documents over the limits of
``document_limits``. Dates stay text, since no setting is a date, and so do the numbers that only
YAML 1.1 has: 010 (octal 8), 1_000 and 1:30 (90).
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from nri_numamem.config.document_limits import Extent, LimitError

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
    """Loads the documents of a text, which have at most `max_values` together.

    Its errors are those of PyYAML, whose texts are lines without the place.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's
        first: [(tag, pattern) for tag, pattern in found if tag not in (_TIMESTAMP, _INT, _FLOAT)]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str, max_values: int) -> None:
        super().__init__(text)
        self._extent = Extent(max_values)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; limits and merge keys are checked here."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        try:
            if isinstance(event, yaml.AliasEvent):
                node = super().compose_node(parent, index)
                self._extent.alias(str(event.anchor))
            else:
                with self._extent.value(event.anchor):
                    node = super().compose_node(parent, index)
        except LimitError as error:
            problem, _, remedy = str(error).partition("; ")
            raise _error(problem, remedy, event) from error
        if node is not None and node.tag == _MERGE:
            raise _error("the merge key << is not supported", "write out its keys instead", event)
        return node

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
