"""NRI messages of any content, drawn field by field; knows types, not meanings.

Texts come mostly from a list of words that the plugin looks at, so that two messages may speak of
the same pod.
"""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.fuzz.choices import Choices

_WORDS = (
    "s0", "s1", "c0", "c1", "u0", "u1", "main", "side", "/kubepods/podu0", "/kubepods/podu1",
    "/kubepods/burstable/podu0", "kubepods-podu0.slice", "0", "1", "0-1", "2,3", "9", "0-3",
    "4-7", "2MB", "2Mi", "1GB", "64KB", "hugetlb.2MB.max", "hugetlb.1GB.max", "c", "b", "a",
    "2097152", "max", "-1", "",
)  # fmt: skip
_NUMBERS = (0, 1, 2 << 20, 64 << 20, 1 << 30, 3 << 30, 1024, 4096, -1, 2**63 - 1)
_DEPTH_MOST = 7
_REPEATED_MOST = 4

_BITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def fill(message: Message, choices: Choices, depth: int = 0) -> None:
    """Set some fields of a message."""
    fields: list[Any] = list(message.DESCRIPTOR.fields)
    for _ in range(choices.below(8) if fields else 0):
        field = choices.pick(fields)
        is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if is_message and depth == _DEPTH_MOST:
            continue
        if field.is_repeated:
            for _ in range(choices.below(_REPEATED_MOST)):
                _add(message, field, choices, depth)
        elif is_message:
            part = getattr(message, field.name)
            part.SetInParent()
            fill(part, choices, depth + 1)
        else:
            setattr(message, field.name, _draw(field, choices))


def _add(message: Message, field: Any, choices: Choices, depth: int) -> None:  # noqa: ANN401
    values: Any = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, field = (_draw(entry.fields_by_name["key"], choices), entry.fields_by_name["value"])
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            fill(values[key], choices, depth + 1)
        else:
            values[key] = _draw(field, choices)
    elif entry is not None:
        fill(values.add(), choices, depth + 1)
    else:
        values.append(_draw(field, choices))


def _draw(field: FieldDescriptor, choices: Choices) -> object:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return choices.text() if choices.below(16) == 15 else choices.pick(_WORDS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return choices.flag()
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return choices.below(20)
    least, most = _BITS[field.cpp_type]
    number = choices.integer(8) if choices.below(16) == 15 else choices.pick(_NUMBERS)
    return min(max(number, least), most)
