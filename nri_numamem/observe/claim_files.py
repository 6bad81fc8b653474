"""Files through which the agent and the plugin exchange resource claims.

Only the agent has credentials for the API server, and only the plugin changes the accounting. So
each writes one file, in a directory of its own below `claims` beside the state file:

====================  =======  =====================================================================
file                  writer   contents
====================  =======  =====================================================================
intents/claims.json   agent    the claims that the kubelet wants to use: amounts, NUMA nodes, pods
answers/claims.json   plugin   for each of them whether it is charged, or why not
====================  =======  =====================================================================

A claim is an intent until the kubelet unprepares it. Each attempt to prepare a claim has an id,
which the answer repeats; an answer to an earlier attempt does not count. The files are replaced
atomically and are on the disk when the functions return. One file for all claims, because a burst
of claims then takes two writes instead of two for each.

Each directory has a socket (``wake``) on which the directory's writer waits: a datagram means that
the other file has changed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, format_amounts, parse_amounts
from nri_numamem.observe.files import beside, read_regular, replace_file
from nri_numamem.observe.wake import wake

VERSION = 1
NAME = "claims.json"

# A claim takes some 500 bytes.
_SIZE_LIMIT_BYTES = 8 << 20

_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}", re.ASCII)
"""What can be a part of a file name. Kubernetes' uids are of this kind."""

_V = TypeVar("_V")


class ClaimFileError(ValueError):
    """A file that cannot be used; the text names the path."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A claim to be prepared."""

    claim: Claim
    attempt: str
    """The id of the attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an attempt."""

    attempt: str
    refusal: str = ""
    """Why the claim cannot be prepared; "" if it is charged."""


class Intents(NamedTuple):
    """The intents of a host."""

    found: tuple[Intent, ...] = ()
    """By uid of the claim."""
    problems: tuple[str, ...] = ()
    """One text for each intent that cannot be used."""
    uids: frozenset[str] = frozenset()
    """Of all intents, also those that cannot be used."""


def directory_of(state_file: Path) -> Path:
    """Return the directory of claims beside a state file."""
    return beside(state_file, "claims")


def intents_file(directory: Path) -> Path:
    """Return the path of the agent's file."""
    return directory / "intents" / NAME


def answers_file(directory: Path) -> Path:
    """Return the path of the plugin's file."""
    return directory / "answers" / NAME


def is_uid(text: str) -> bool:
    """Return whether a text can be the uid of a claim."""
    return _UID.fullmatch(text) is not None


def write_intents(directory: Path, intents: Iterable[Intent]) -> None:
    """Replace the intents, and wake the plugin; raises OSError."""
    claims = {
        intent.claim.uid: {
            "namespace": intent.claim.namespace,
            "name": intent.claim.name,
            "attempt": intent.attempt,
            "pods": sorted(intent.claim.pods),
            "requests": {
                name: format_amounts(wanted) for name, wanted in intent.claim.requests.items()
            },
        }
        for intent in intents
    }
    _write(intents_file(directory), claims)
    wake(answers_file(directory))


def read_intents(directory: Path) -> Intents:
    """Return the intents; none without a file. Raises OSError and ClaimFileError."""
    found, problems = _read(intents_file(directory), _intent)
    by_uid = tuple(found[uid] for uid in sorted(found))
    return Intents(by_uid, tuple(problems.values()), frozenset(found) | problems.keys())


def write_answers(directory: Path, by_uid: Mapping[str, Answer]) -> None:
    """Replace the answers by uid of the claim, and wake the agent; raises OSError."""
    claims = {
        uid: {"attempt": answer.attempt, "refusal": answer.refusal}
        for uid, answer in sorted(by_uid.items())
    }
    _write(answers_file(directory), claims)
    wake(intents_file(directory))


def read_answers(directory: Path) -> Mapping[str, Answer]:
    """Return uid -> answer; none without a file. Raises OSError and ClaimFileError."""
    return _read(answers_file(directory), _answer)[0]


def _write(path: Path, claims: Mapping[str, object]) -> None:
    document = {"version": VERSION, "claims": claims}
    replace_file(path, json.dumps(document, separators=(",", ":")).encode() + b"\n")


def _read(
    path: Path, read_entry: Callable[[str, Mapping[str, object]], _V]
) -> tuple[dict[str, _V], dict[str, str]]:
    """Return uid -> entry, and uid -> problem for entries that cannot be used."""
    found: dict[str, _V] = {}
    problems: dict[str, str] = {}
    for uid, entry in _claims(path).items():
        try:
            found[uid] = read_entry(uid, _object(uid, entry))
        except ClaimFileError as error:
            problems[uid] = f"{path}: {uid[:100]!r}: {error}"
    return found, problems


def _object(uid: str, entry: object) -> Mapping[str, object]:
    if not is_uid(uid):
        raise ClaimFileError("not the uid of a claim")
    if not isinstance(entry, dict):
        raise ClaimFileError("not an object")
    return entry


def _claims(path: Path) -> Mapping[str, object]:
    try:
        data = read_regular(path, _SIZE_LIMIT_BYTES)
    except FileNotFoundError:
        return {}
    if len(data) > _SIZE_LIMIT_BYTES:
        raise ClaimFileError(f"{path}: more than {_SIZE_LIMIT_BYTES} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ClaimFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ClaimFileError(f"{path}: not a document of version {VERSION}")
    claims = document.get("claims")
    if not isinstance(claims, dict):
        raise ClaimFileError(f"{path}: claims is not an object")
    return claims


def _intent(uid: str, entry: Mapping[str, object]) -> Intent:
    pods = entry.get("pods")
    if not isinstance(pods, list) or not all(isinstance(each, str) for each in pods):
        raise ClaimFileError("pods is not a list of texts")
    requests = _requests(entry.get("requests"))
    claim = Claim(uid, _text(entry, "namespace"), _text(entry, "name"), requests, frozenset(pods))
    return Intent(claim, _text(entry, "attempt"))


def _answer(_uid: str, entry: Mapping[str, object]) -> Answer:
    return Answer(_text(entry, "attempt"), _text(entry, "refusal"))


def _requests(value: object) -> dict[str, ClaimAmounts]:
    if not isinstance(value, dict) or not value:
        raise ClaimFileError("requests is not an object with entries")
    found: dict[str, ClaimAmounts] = {}
    for name, text in value.items():
        try:
            found[name] = parse_amounts(str(text))
        except ValueError as error:
            raise ClaimFileError(f"requests.{name[:100]}: {error}") from error
    return found


def _text(entry: Mapping[str, object], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str):
        raise ClaimFileError(f"{name} is not a text")
    return value
