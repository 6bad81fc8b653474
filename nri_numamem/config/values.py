"""Read single values of a parsed settings document.

Each function takes a value and its path in the document. It returns the value in its type, or
raises ``SettingsError``, whose one line names the place, the problem and the remedy. Where null is
accepted, it means that the value is not set.

Values may be hostile. Only scalars become text in errors, because a small YAML document with
aliases can stand for an endless list.
"""

import re
from collections.abc import Mapping, Sequence

from nri_numamem.numa.idset import NODE_ID_LIMIT, NodeSet
from nri_numamem.numa.quantity import parse_quantity

SettingsPath = tuple[str | int, ...]

OFF = "off"
"""A word of read_choice() that YAML 1.1 reads as a boolean, unless it is in quotes."""

# The values that Go's strconv.ParseBool accepts; the kubelet's options are text. YAML's booleans
# and the numbers 0 and 1 have the same spelling as text.
_GO_TRUE = ("1", "t", "T", "true", "TRUE", "True")
GO_BOOLEANS = (*_GO_TRUE, "0", "f", "F", "false", "FALSE", "False")

# HOST:PORT, with brackets around IPv6 as in a URL. Binding shows whether the host has the address.
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]{1,253}):([0-9]{1,5})", re.ASCII)
_PORT_MOST = 65535
_UNIX = "unix://"
_UNIX_EXAMPLE = "unix:///run/nri-numamem/metrics.sock"
# sun_path of Linux has 108 bytes with the closing NUL.
_SOCKET_PATH_BYTES = 107

# All bounds of settings have at most ten digits. A leading zero means octal to some YAML parsers.
_INTEGER = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)

# Enough to recognise a value in an error of one line.
_SHOWN_CHARACTERS = 60
# Python refuses to print integers of more than 4,300 digits.
_PRINTED_BITS = 128

# Namespaces and handlers are DNS labels or names; the API server accepts at most 253 characters.
_NAME_LIMIT = 253
# PATH_MAX of Linux, which includes the closing NUL.
_PATH_LIMIT = 4096

_AMOUNT_REMEDY = "write an amount such as 512Mi"


class SettingsError(ValueError):
    """A setting is invalid; the text is one line, "PLACE: PROBLEM; REMEDY"."""

    def __init__(self, path: SettingsPath, problem: str, remedy: str) -> None:
        self.path = path
        """Keys and list indexes from the top of the document; empty for the document itself."""
        place = "".join(
            f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in path
        )
        super().__init__(f"{place.removeprefix('.') or 'settings'}: {problem}; {remedy}")


def read_mapping(
    path: SettingsPath, value: object, keys: Sequence[str] = ()
) -> Mapping[str, object]:
    """Return a mapping whose keys are text and, when `keys` are given, among them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SettingsError(path, f"{show(value)} instead of a mapping", "write KEY: VALUE")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(path, f"the key {show(key)} is not text", "put it in quotes")
        if keys and key not in keys:
            raise SettingsError((*path, key), "unknown key", suggest(key, keys))
    return value


def read_choice(path: SettingsPath, value: object, allowed: Sequence[str]) -> str:
    """Return one of the allowed words; null gives the first, and a bare `off` of YAML OFF."""
    if value is None:
        return allowed[0]
    if value is False and OFF in allowed:
        return OFF
    if value not in allowed:
        near_to = value if isinstance(value, str) else ""
        raise SettingsError(path, f"unknown value {show(value)}", suggest(near_to, allowed))
    return str(value)


def read_word(path: SettingsPath, value: object, allowed: Sequence[str], noun: str) -> str:
    """Return one of the allowed words; null is an error. `noun` is a name for them."""
    if value is None:
        raise SettingsError(path, f"no {noun}", f"write one of: {', '.join(allowed)}")
    return read_choice(path, value, allowed)


def read_go_bool(path: SettingsPath, value: object) -> bool:
    """Return a boolean in Go's spelling or YAML's."""
    text = value if isinstance(value, str) else show(value)
    if text not in GO_BOOLEANS:
        raise SettingsError(path, f"{show(value)} is not a boolean", 'write "true" or "false"')
    return text in _GO_TRUE


def read_names(path: SettingsPath, value: object, what: str) -> tuple[str, ...]:
    """Return a list of names such as namespaces, without repetitions.

    `what` is one of them in words, such as "a namespace".
    """
    names: dict[str, None] = {}
    for index, name in enumerate(read_list(path, value, f"write a list, each {what}")):
        if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT or not name.isprintable():
            raise SettingsError((*path, index), f"{show(name)} is not {what}", f"write {what}")
        names[name] = None
    return tuple(names)


def read_list(path: SettingsPath, value: object, remedy: str) -> list[object]:
    """Return a list."""
    if not isinstance(value, list):
        raise SettingsError(path, f"{show(value)} instead of a list", remedy)
    return value


def read_node_set(path: SettingsPath, value: object) -> NodeSet:
    """Return NUMA nodes in the kernel's list format, at least one; a single id may be a number."""
    text = str(value) if type(value) is int else value
    try:
        nodes = NodeSet.parse(text if isinstance(text, str) else "")
    except ValueError:
        nodes = NodeSet()
    if not nodes:
        remedy = f'write ids from 0 to {NODE_ID_LIMIT - 1}, such as "4-7" or "2,4"'
        is_text = isinstance(value, str | int)
        problem = "is not a list of NUMA nodes" if is_text else "instead of NUMA nodes as text"
        raise SettingsError(path, f"{show(value)} {problem}", remedy)
    return nodes


def read_path(path: SettingsPath, value: object, example: str) -> str:
    """Return an absolute path; the example is for the remedy."""
    is_path = isinstance(value, str) and value.startswith("/") and "\0" not in value
    if not is_path or len(str(value)) >= _PATH_LIMIT:
        remedy = f"write a path such as {example}"
        raise SettingsError(path, f"{show(value)} is not an absolute path", remedy)
    return str(value)


def read_integer(path: SettingsPath, value: object, *, least: int, most: int) -> int:
    """Return a whole number within the bounds, written as a number or as text."""
    text = value.strip() if isinstance(value, str) else ""
    number = int(text) if _INTEGER.fullmatch(text) else value
    if type(number) is not int or not least <= number <= most:
        problem = "missing" if value is None else f"{show(value)} is out of range"
        raise SettingsError(path, problem, f"write a whole number from {least} to {most}")
    return number


def read_address(path: SettingsPath, value: object) -> str:
    """Return a HOST:PORT or unix://PATH as written; null and "" give ""."""
    if value is None or value == "":
        return ""
    if isinstance(value, str) and value.startswith(_UNIX):
        return _unix_address(path, value)
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match[1]) <= _PORT_MOST:
        remedy = f"write HOST:PORT such as 127.0.0.1:9551 or [::1]:9551, or {_UNIX_EXAMPLE}"
        raise SettingsError(path, f"{show(value)} is not an address", remedy)
    return match[0]


def _unix_address(path: SettingsPath, value: str) -> str:
    name = value.removeprefix(_UNIX)
    if not name.startswith("/") or not name.isprintable() or name.endswith("/"):
        remedy = f"write an absolute path such as {_UNIX_EXAMPLE}"
        raise SettingsError(path, f"{show(value)} has no path of a socket", remedy)
    if len(name.encode(errors="surrogateescape")) > _SOCKET_PATH_BYTES:
        problem = f"the socket's path has more than {_SOCKET_PATH_BYTES} bytes"
        raise SettingsError(path, problem, "use a shorter one")
    return value


def read_amount_text(path: SettingsPath, value: object) -> str:
    """Return an amount as written; numbers become text, as in the kubelet."""
    is_scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not is_scalar or (isinstance(value, int) and value.bit_length() > _PRINTED_BITS):
        raise SettingsError(path, f"{show(value)} instead of an amount", _AMOUNT_REMEDY)
    return str(value)


def read_quantity(path: SettingsPath, value: object) -> int:
    """Return the bytes of a Kubernetes quantity or plain count."""
    problem = f"{show(value)} instead of an amount"
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return parse_quantity(value)
        except ValueError as error:
            problem = str(error)
    raise SettingsError(path, problem, _AMOUNT_REMEDY)


def suggest(given: str, allowed: Sequence[str]) -> str:
    """Return the remedy for an unknown word: the most similar allowed word, and all of them."""
    import difflib  # noqa: PLC0415 - only for an error, never while serving

    plain = {_plain(word): word for word in allowed}
    near = difflib.get_close_matches(_plain(given), list(plain), n=1)
    every = f"allowed: {', '.join(map(_word, allowed))}"
    return f"did you mean {_word(plain[near[0]])}? {every}" if near else every


def _word(word: str) -> str:
    """Return an allowed word on one line; pod names of a scenario may have any character."""
    return word if word.isprintable() else show(word)


def _plain(word: str) -> str:
    """Return the characters by which words are compared; long input is cut."""
    return word.lower().replace("_", "").replace("-", "")[:_SHOWN_CHARACTERS]


def show(value: object) -> str:
    """Return a value as text of one short line."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _PRINTED_BITS:
        return "a huge number"
    return _cut(repr(value))


def _name(key: str) -> str:
    """Return a key as text of one short line."""
    return _cut(key if key.isprintable() else repr(key))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
