"""The steps of an installation: values with paths on the host, and one line for people."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

TEXT_MODE = 0o644
PROGRAM_MODE = 0o755


@dataclass(frozen=True, slots=True)
class Write:
    """Write a text file; its directory is made if it is missing."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy a program."""

    path: str
    source: Path
    """Where it is read, whatever the root directory is."""


@dataclass(frozen=True, slots=True)
class Link:
    """Make a symbolic link."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Move:
    """Rename a file; nothing is at its new path."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file or a link."""

    path: str


@dataclass(frozen=True, slots=True)
class Service:
    """Run systemctl; `undo` are the arguments that take it back."""

    arguments: tuple[str, ...]
    undo: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The command line, for messages."""
        return " ".join(("systemctl", *self.arguments))


Step: TypeAlias = Write | Copy | Link | Move | Remove | Service

_VERBS: dict[type[Step], tuple[str, str]] = {
    Write: ("wrote", "write"),
    Copy: ("copied", "copy"),
    Link: ("linked", "link"),
    Move: ("moved", "move"),
    Remove: ("removed", "remove"),
    Service: ("ran", "run"),
}


def describe(step: Step, *, is_done: bool) -> str:
    """Return one line: what was done, or what would be done."""
    past, verb = _VERBS[type(step)]
    return f"{past if is_done else f'would {verb}'} {_what(step)}"


def _what(step: Step) -> str:
    match step:
        case Copy():
            return f"{step.source} to {step.path}"
        case Link():
            return f"{step.path} -> {step.target}"
        case Move():
            return f"{step.path} to {step.target}"
        case _:
            return step.path
