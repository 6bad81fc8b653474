"""Files through which commands make earmarks, and the plugin answers.

They are in the directory `earmarks` beside the state file, for root only:

=====================  =========  ================================================================
file                   writer     contents
=====================  =========  ================================================================
wanted/UID.json        a command  one earmark: NUMA nodes, amounts, who may use it, when it ends
answers/earmarks.json  plugin     for each of them whether the room is set aside, or why not
=====================  =========  ================================================================

An earmark lasts until its file is removed or its time is over. A command renews it by another time
in its file. An answer counts for one time. The socket beside the answers (``wake``) is that of the
plugin, which removes the files of earmarks whose time is over.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MAX_BYTES, is_memory_resource
from nri_numamem.observe.files import beside, read_regular, reason_of, replace_file
from nri_numamem.observe.wake import wake

VERSION = 1
MOST = 1000
"""Earmarks of a host; further files are not read."""

_SIZE_LIMIT_BYTES = 64 << 10
_ANSWERS_LIMIT_BYTES = 4 << 20
_LABELS_MOST = 32

_UID = re.compile(r"[0-9a-z][0-9a-z-]{0,62}", re.ASCII)
"""What can be the name of a file."""


class EarmarkFileError(ValueError):
    """A file that cannot be used; the text names the path."""


@dataclass(frozen=True, slots=True)
class EarmarkAnswer:
    """The answer to an earmark that ends at a time."""

    expires_s: int
    refusal: str = ""
    """Why the room cannot be set aside; "" if it is."""


class Wanted(NamedTuple):
    """The earmarks that commands want."""

    earmarks: tuple[Earmark, ...] = ()
    """By uid."""
    problems: tuple[str, ...] = ()
    """One text for each file that cannot be used."""
    uids: frozenset[str] = frozenset()
    """Of all files, also those that cannot be used."""


def directory_of(state_file: Path) -> Path:
    """Return the directory of earmarks beside a state file."""
    return beside(state_file, "earmarks")


def answers_file(directory: Path) -> Path:
    """Return the path of the plugin's file."""
    return directory / "answers" / "earmarks.json"


def file_of(directory: Path, uid: str) -> Path:
    """Return the path of the file of one earmark."""
    return directory / "wanted" / f"{uid}.json"


def is_uid(text: str) -> bool:
    """Return whether a text can be the uid of an earmark."""
    return _UID.fullmatch(text) is not None


def write_wanted(directory: Path, earmark: Earmark) -> None:
    """Write the file of an earmark, and wake the plugin; raises OSError."""
    who = earmark.beneficiary
    document = {
        "version": VERSION,
        "nodes": str(earmark.room.nodes),
        "amounts": dict(earmark.room.amounts),
        "namespace": who.namespace,
        "podUid": who.uid,
        "pod": who.name,
        "labels": dict(who.labels),
        "expires": earmark.expires_s,
    }
    replace_file(file_of(directory, earmark.uid), _bytes(document))
    wake(answers_file(directory))


def remove_wanted(directory: Path, uid: str) -> bool:
    """Remove the file of an earmark, and wake the plugin; return whether it was there.

    Raises OSError.
    """
    try:
        file_of(directory, uid).unlink()
    except FileNotFoundError:
        return False
    wake(answers_file(directory))
    return True


def read_wanted(directory: Path) -> Wanted:
    """Return the earmarks that commands want; none without the directory. Raises OSError."""
    earmarks: list[Earmark] = []
    problems: list[str] = []
    uids: set[str] = set()
    paths = sorted((directory / "wanted").glob("[!.]*.json"))
    for path in paths[:MOST]:
        uids.add(path.stem)
        try:
            earmarks.append(_earmark(path))
        except FileNotFoundError:
            uids.discard(path.stem)  # removed meanwhile
        except OSError as error:
            problems.append(f"{path}: {reason_of(error)}")
        except EarmarkFileError as error:
            problems.append(f"{path}: {error}")
    if len(paths) > MOST:
        problems.append(f"{directory / 'wanted'}: more than {MOST} earmarks")
    return Wanted(tuple(earmarks), tuple(problems), frozenset(uids))


def write_answers(directory: Path, by_uid: Mapping[str, EarmarkAnswer]) -> None:
    """Replace the answers by uid; raises OSError."""
    found = {
        uid: {"expires": each.expires_s, "refusal": each.refusal}
        for uid, each in sorted(by_uid.items())
    }
    replace_file(answers_file(directory), _bytes({"version": VERSION, "earmarks": found}))


def read_answers(directory: Path) -> Mapping[str, EarmarkAnswer]:
    """Return uid -> answer; none without a file. Raises OSError and EarmarkFileError."""
    path = answers_file(directory)
    try:
        document = _object(read_regular(path, _ANSWERS_LIMIT_BYTES), _ANSWERS_LIMIT_BYTES)
        found = _mapping(document, "earmarks")
        return {
            uid: EarmarkAnswer(_number(_mapping(found, uid), "expires"), _refusal(found, uid))
            for uid in found
        }
    except FileNotFoundError:
        return {}
    except EarmarkFileError as error:
        raise EarmarkFileError(f"{path}: {error}") from error


def _refusal(found: Mapping[str, object], uid: str) -> str:
    return _text(_mapping(found, uid), "refusal")


def _earmark(path: Path) -> Earmark:
    if not is_uid(path.stem):
        raise EarmarkFileError("not the uid of an earmark")
    entry = _object(read_regular(path, _SIZE_LIMIT_BYTES), _SIZE_LIMIT_BYTES)
    try:
        nodes = NodeSet.parse(_text(entry, "nodes"))
    except ValueError as error:
        raise EarmarkFileError(f"nodes: {error}") from error
    amounts = _mapping(entry, "amounts")
    sizes = {name: _number(amounts, name) for name in amounts}
    if not nodes or not sizes or not all(_is_amount(name, size) for name, size in sizes.items()):
        raise EarmarkFileError("nodes and amounts must not be empty, and amounts are bytes")
    labels = _mapping(entry, "labels")
    texts = {key: _text(labels, key) for key in labels}
    namespace, uid = _text(entry, "namespace"), _text(entry, "podUid")
    if not namespace or bool(uid) == bool(texts) or len(texts) > _LABELS_MOST:
        raise EarmarkFileError("it needs namespace, and either podUid or labels")
    who = Beneficiary(namespace, uid, _text(entry, "pod"), texts)
    return Earmark(path.stem, Room(nodes, sizes), who, _number(entry, "expires"))


def _is_amount(name: str, size: int) -> bool:
    return is_memory_resource(name) and 0 < size <= MAX_BYTES


def _bytes(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _object(data: bytes, limit_bytes: int) -> Mapping[str, object]:
    if len(data) > limit_bytes:
        raise EarmarkFileError(f"more than {limit_bytes} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EarmarkFileError(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise EarmarkFileError(f"not a document of version {VERSION}")
    return document


def _mapping(entry: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = entry.get(name)
    if not isinstance(value, dict):
        raise EarmarkFileError(f"{name} is not an object")
    return value


def _text(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str):
        raise EarmarkFileError(f"{name} is not a text")
    return value


def _number(entry: Mapping[str, object], name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise EarmarkFileError(f"{name} is not a whole number")
    return value
