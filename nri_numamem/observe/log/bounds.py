"""Limits the texts of a record, which users of a cluster can choose: names, labels, values.

The thread that writes the log does it, and makes dictionaries of typed records first.
"""

from collections.abc import Mapping

from nri_numamem.engine.core.text import cut
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.log.render import EXCEPTION_KEY

# The longest texts of the plugin itself, the messages of rejections, have 900 characters.
_TEXT_CHARACTERS = 1024
# The end of a long traceback has the most information.
_EXCEPTION_CHARACTERS = 16 * 1024

# Records are flat, but for amounts per resource and node, and dumps of the state.
_LEVELS = 8

# Concrete types first: a comparison with the abstract class Mapping takes longer.
_UNCHANGED = (int, float, type(None))
_MAPPINGS = (dict, Mapping)


def bounded(record: Mapping[str, object]) -> dict[str, object]:
    """Return the record with texts of at most 1,024 characters each, and a traceback's end.

    A typed record among the values is replaced by its fields.
    """
    whole = expanded(record)
    exception = whole.pop(EXCEPTION_KEY, "")
    found = {key: _bounded(value, _LEVELS) for key, value in whole.items()}
    if isinstance(exception, str) and exception:
        found[EXCEPTION_KEY] = exception[-_EXCEPTION_CHARACTERS:]
    return found


def expanded(record: Mapping[str, object]) -> dict[str, object]:
    """Return the values by key, with the fields of a typed record in its place."""
    found: dict[str, object] = {}
    for key, value in record.items():
        found |= fields_of(value) if isinstance(value, Record) else {key: value}
    return found


def _bounded(value: object, levels: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARACTERS else cut(value, _TEXT_CHARACTERS)
    if levels == 0 or isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, _MAPPINGS):
        return {_bounded(key, 1): _bounded(part, levels - 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(part, levels - 1) for part in value]
    return value
