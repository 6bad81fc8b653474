"""Files through which the agent and the plugin exchange resource claims.

Only the agent has credentials for the API server, and only the plugin changes the accounting. So
each writes files in a directory of its own, below `claims` beside the state file:

====================  =======  =====================================================================
file                  writer   contents
====================  =======  =====================================================================
intents/UID.json      agent    a claim that the kubelet wants to use: amounts, NUMA nodes, pods
answers/UID.json      plugin   whether the claim is charged, or why not
wake.sock             plugin   a datagram socket: each datagram means that intents have changed
====================  =======  =====================================================================

An intent stays until the kubelet unprepares the claim. Each attempt to prepare a claim has an id,
which the answer repeats; an answer to an earlier attempt does not count. Files are replaced
atomically and are on the disk when the functions return.
"""

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, format_amounts, parse_amounts
from nri_numamem.observe.files import beside, make_directory, read_regular, reason_of, replace_file

VERSION = 1

# The API server's limit of a claim is 32 devices: some 5 KiB.
_SIZE_LIMIT_BYTES = 64 << 10
# Several times the pods of a large host.
_FILES_LIMIT = 4096

_UID = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,99}", re.ASCII)
"""What can be a part of a file name. Kubernetes' uids are of this kind."""


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

    found: tuple[Intent, ...]
    """By uid of the claim."""
    problems: tuple[str, ...]
    """One text for each file that cannot be used."""
    uids: frozenset[str]
    """Of all intents, also those that cannot be used."""


def directory_of(state_file: Path) -> Path:
    """Return the directory of claims beside a state file."""
    return beside(state_file, "claims")


def intent_file(directory: Path, uid: str) -> Path:
    """Return the path of the intent for a claim; raises ValueError for a uid that cannot be one."""
    return directory / "intents" / f"{_checked(uid)}.json"


def answer_file(directory: Path, uid: str) -> Path:
    """Return the path of the answer for a claim; raises ValueError for a uid that cannot be one."""
    return directory / "answers" / f"{_checked(uid)}.json"


def wake_socket(directory: Path) -> Path:
    """Return the path of the plugin's socket."""
    return directory / "wake.sock"


def write_intent(directory: Path, intent: Intent) -> None:
    """Write an intent, and wake the plugin. Raises OSError, and ValueError as `intent_file`."""
    claim = intent.claim
    document = {
        "version": VERSION,
        "uid": claim.uid,
        "namespace": claim.namespace,
        "name": claim.name,
        "attempt": intent.attempt,
        "pods": sorted(claim.pods),
        "requests": {name: format_amounts(wanted) for name, wanted in claim.requests.items()},
    }
    replace_file(intent_file(directory, claim.uid), _encoded(document))
    wake(directory)


def remove_intent(directory: Path, uid: str) -> None:
    """Remove an intent, if there is one, and wake the plugin; raises as `write_intent`."""
    intent_file(directory, uid).unlink(missing_ok=True)
    wake(directory)


def read_intents(directory: Path) -> Intents:
    """Return the intents of a host; raises OSError if the directory cannot be read."""
    found: list[Intent] = []
    problems: list[str] = []
    paths = list(_files(directory / "intents"))
    for path in paths:
        try:
            found.append(read_intent(path))
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            problems.append(f"{path}: {reason_of(error)}")
        except ClaimFileError as error:
            problems.append(str(error))
    return Intents(tuple(found), tuple(problems), frozenset(path.stem for path in paths))


def read_intent(path: Path) -> Intent:
    """Return an intent; raises OSError, and ClaimFileError for another file."""
    document = _document(path)
    uid, pods = _text(path, document, "uid"), document.get("pods")
    if uid != path.stem:
        raise ClaimFileError(f"{path}: uid {uid[:100]!r} is not that of the file name")
    if not isinstance(pods, list) or not all(isinstance(each, str) for each in pods):
        raise ClaimFileError(f"{path}: pods is not a list of texts")
    claim = Claim(
        uid,
        _text(path, document, "namespace"),
        _text(path, document, "name"),
        _requests(path, document.get("requests")),
        frozenset(pods),
    )
    return Intent(claim, _text(path, document, "attempt"))


def write_answer(directory: Path, uid: str, answer: Answer) -> None:
    """Write an answer. Raises OSError, and ValueError as `answer_file`."""
    document = {"version": VERSION, "attempt": answer.attempt, "refusal": answer.refusal}
    replace_file(answer_file(directory, uid), _encoded(document))


def remove_answer(directory: Path, uid: str) -> None:
    """Remove an answer, if there is one; raises as `write_answer`."""
    answer_file(directory, uid).unlink(missing_ok=True)


def read_answers(directory: Path) -> Mapping[str, Answer]:
    """Return uid -> answer, without files that cannot be used; raises OSError as read_intents."""
    found: dict[str, Answer] = {}
    for path in _files(directory / "answers"):
        with suppress(OSError, ClaimFileError):
            found[path.stem] = _answer(path)
    return found


def read_answer(directory: Path, uid: str) -> Answer | None:
    """Return the answer for a claim; None without one.

    Raises OSError, ClaimFileError, and ValueError as `answer_file`.
    """
    try:
        return _answer(answer_file(directory, uid))
    except FileNotFoundError:
        return None


def make_directories(directory: Path) -> None:
    """Make the directories, for root only; raises OSError."""
    for name in ("intents", "answers"):
        make_directory(directory / name / "x")


def wake(directory: Path) -> None:
    """Send a datagram to the plugin; without one it reads the intents some seconds later."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        sock.sendto(b"\n", str(wake_socket(directory)))


def _checked(uid: str) -> str:
    if not _UID.fullmatch(uid):
        raise ValueError(f"{uid[:100]!r} is not the uid of a claim")
    return uid


def _files(directory: Path) -> Iterator[Path]:
    """Yield the paths of documents by name; none if the directory does not exist."""
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return
    yield from [p for p in paths if p.suffix == ".json" and _UID.fullmatch(p.stem)][:_FILES_LIMIT]


def _answer(path: Path) -> Answer:
    document = _document(path)
    return Answer(_text(path, document, "attempt"), _text(path, document, "refusal"))


def _requests(path: Path, value: object) -> dict[str, ClaimAmounts]:
    if not isinstance(value, dict) or not value:
        raise ClaimFileError(f"{path}: requests is not an object with entries")
    found: dict[str, ClaimAmounts] = {}
    for name, text in value.items():
        try:
            found[name] = parse_amounts(str(text))
        except ValueError as error:
            raise ClaimFileError(f"{path}: requests.{name[:100]}: {error}") from error
    return found


def _document(path: Path) -> Mapping[str, object]:
    data = read_regular(path, _SIZE_LIMIT_BYTES)
    if len(data) > _SIZE_LIMIT_BYTES:
        raise ClaimFileError(f"{path}: more than {_SIZE_LIMIT_BYTES} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ClaimFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ClaimFileError(f"{path}: not a document of version {VERSION}")
    return document


def _text(path: Path, document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise ClaimFileError(f"{path}: {name} is not a text")
    return value


def _encoded(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
