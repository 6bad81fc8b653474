"""The rows of the table of settings: how a key is read, written and described.

``config.table`` has all rows. A row reads the value of its key in a parsed document into a field,
and writes the field as that value. A key without a value (null) is not read, so that the field has
its default. docs/configuration.md and the example file are made from the same rows.

Rows are named tuples, because defining as many dataclasses takes 2 ms of the plugin's start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from nri_numamem.config.values import (
    GO_BOOLEANS,
    OFF,
    SettingsPath,
    read_choice,
    read_go_bool,
    read_integer,
    read_list,
    read_mapping,
    read_names,
    read_path,
    read_word,
)


class Kind(NamedTuple):
    """The values that a key takes."""

    type: str
    """In words, or all allowed values, in Markdown."""
    read: Callable[[SettingsPath, object], object]
    """Returns the field of a value that is not null; raises SettingsError."""
    write: Callable[[Any], object] = lambda value: value
    """Returns the value that read() takes for a field; None leaves out the key."""
    empty: str = ""
    """The value of a key that is left out, as written in YAML; "" if it has none."""
    schema: Mapping[str, object] = {}
    """JSON schema of the values, for the Helm chart. It may accept more than read()."""


class Setting(NamedTuple):
    """One key with a value of its own."""

    key: str
    """Without the key of its group."""
    field: str
    """Of Settings, or of the value of its group: the owner."""
    kind: Kind
    meaning: str
    """Sentences for operators, in Markdown."""
    flag: str = ""
    """The option of `nri-numamem run` that overrides the key."""
    is_live: bool = False
    """Whether a reload applies it; a change of another setting needs a restart."""
    is_shown: Callable[[Any], bool] = lambda _: True
    """Returns whether the key is written for an owner."""

    def read(self, path: SettingsPath, value: object) -> dict[str, object]:
        """Return the field and its value; raise SettingsError."""
        return {self.field: self.kind.read(path, value)}

    def write(self, owner: object) -> object:
        """Return the value for the document, or None."""
        return self.kind.write(getattr(owner, self.field)) if self.is_shown(owner) else None

    def described(self, owner: object) -> Iterator[tuple[str, str, "Setting"]]:
        """Yield the key, the value that an owner has, as written in YAML, and the row."""
        value = self.kind.write(getattr(owner, self.field))
        if value is None:
            yield self.key, self.kind.empty, self
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield self.key, f'"{value}"' if value in ("", "true", "false") else text, self


class Group(NamedTuple):
    """A key whose value is a mapping of other keys."""

    key: str
    members: tuple[Setting, ...]
    field: str = ""
    """Of Settings; "" if its members are fields of Settings."""
    make: Callable[..., Any] = dict
    """Returns the value of the field from the fields of the members that are set."""
    check: Callable[[SettingsPath, Any], None] = lambda _path, _value: None
    """Raises SettingsError for members that contradict each other."""

    def read(self, path: SettingsPath, value: object) -> Mapping[str, object]:
        """Return the fields of Settings and their values; raise SettingsError."""
        made = self.make(**read_rows(path, value, self.members))
        self.check(path, made)
        return {self.field: made} if self.field else made

    def write(self, settings: object) -> object:
        """Return the mapping for the document, or None if it would be empty."""
        return write_rows(self._owner(settings), self.members) or None

    def described(self, settings: object) -> Iterator[tuple[str, str, Setting]]:
        """Yield what each member yields, with the keys from the top of the document."""
        for member in self.members:
            for key, default, row in member.described(self._owner(settings)):
                yield f"{self.key}.{key}", default, row

    def _owner(self, settings: object) -> object:
        return getattr(settings, self.field) if self.field else settings


def read_rows(
    path: SettingsPath, document: object, rows: Sequence[Setting | Group]
) -> dict[str, Any]:
    """Return field -> value for the keys of a mapping that are set.

    Raises SettingsError for the first key of the mapping whose value is invalid.
    """
    by_key = {row.key: row for row in rows}
    fields: dict[str, Any] = {}
    for key, value in read_mapping(path, document, tuple(by_key)).items():
        if value is not None:
            fields.update(by_key[key].read((*path, key), value))
    return fields


def write_rows(owner: object, rows: Iterable[Setting | Group]) -> dict[str, object]:
    """Return the mapping from which read_rows() returns the fields of the owner."""
    document = {row.key: row.write(owner) for row in rows}
    return {key: value for key, value in document.items() if value is not None}


def nullable(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema of `type`, `enum` or `anyOf` that accepts null too: a key without a value."""
    found = dict(schema)
    if types := found.get("type"):
        found["type"] = [*(types if isinstance(types, list) else [types]), "null"]
    for key, null in (("enum", None), ("anyOf", {"type": "null"})):
        if isinstance(values := found.get(key), list):
            found[key] = [*values, null]
    return found


TEXTS: Mapping[str, object] = {"type": "array", "items": {"type": "string"}}
AMOUNT: Mapping[str, object] = {"type": ["string", "number"]}

BOOLEAN = Kind("true or false", read_go_bool, schema={"enum": [True, False, 0, 1, *GO_BOOLEANS]})
NAMESPACES = Kind(
    "list of namespaces",
    lambda path, value: read_names(path, value, "a namespace"),
    lambda names: list(names) or None,
    "[]",
    TEXTS,
)


def listed(allowed: Iterable[str]) -> str:
    """Return allowed words for `Kind.type`."""
    return ", ".join(f"`{word}`" for word in allowed)


def choice(allowed: Sequence[str], make: Callable[[str], object] = str) -> Kind:
    """Return the kind of one word; the field is what `make` returns for it."""
    return Kind(
        listed(allowed),
        lambda path, value: make(read_choice(path, value, allowed)),
        str,
        schema={"enum": [*allowed, False] if OFF in allowed else [*allowed]},
    )


def words_of(allowed: Iterable[str]) -> Mapping[str, object]:
    """Return the schema of a mapping of any keys to allowed words."""
    return {"type": "object", "additionalProperties": {"enum": [*allowed]}}


def choices(allowed: type[StrEnum], noun: str) -> Kind:
    """Return the kind of a list of words; the field has each once, in the order of the enum.

    `noun` is a name for one of them, such as "mode".
    """
    remedy = f"write a list of {', '.join(allowed)}"

    def read(path: SettingsPath, value: object) -> tuple[StrEnum, ...]:
        found = {
            read_word((*path, index), word, tuple(allowed), noun)
            for index, word in enumerate(read_list(path, value, remedy))
        }
        return tuple(word for word in allowed if word in found)

    return Kind(
        f"list of {listed(allowed)}",
        read,
        lambda words: [str(word) for word in words] or None,
        "[]",
        {"type": "array", "items": {"enum": [*allowed]}},
    )


def integer(least: int, most: int, limits: str = "") -> Kind:
    """Return the kind of a whole number; `limits` describes its limits in other words."""
    return Kind(
        f"whole number{limits or f' from {least} to {most}'}",
        lambda path, value: read_integer(path, value, least=least, most=most),
        schema={
            "type": ["integer", "string"],
            "minimum": least,
            "maximum": most,
            "pattern": "^[0-9]+$",
        },
    )


def absolute_path(example: str) -> Kind:
    """Return the kind of an absolute path."""
    return Kind(
        "absolute path",
        lambda path, value: read_path(path, value, example),
        schema={"type": "string", "pattern": "^/"},
    )
