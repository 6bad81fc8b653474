"""The parser of the command line: help texts with whole words, and suggestions.

Paths and options in a help text are not broken at their hyphens. An unknown option or word gets the
most similar one as a suggestion, and the usage of the command that was given.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

# argparse breaks lines at hyphens, but not at this character.
_NON_BREAKING_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*", re.ASCII)
_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_UNRECOGNIZED = re.compile(r"unrecognized arguments: .*?(--[^\s=]+)")


# Without a terminal, as argparse has it.
_COLUMNS = 80
# argparse leaves this margin.
_MARGIN = 2


def _columns() -> int:
    """Return the width of the terminal; COLUMNS overrides it, as everywhere."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _COLUMNS
    except (AttributeError, ValueError, OSError):
        return _COLUMNS


class _HelpFormatter(argparse.HelpFormatter):
    """A formatter with a width.

    Without one argparse imports shutil with three compression libraries, even if no help is shown:
    0.5 MiB of the plugin's process.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - _MARGIN)


class Parser(argparse.ArgumentParser):
    """A parser for the program, a command or an action."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(formatter_class=_HelpFormatter, **options)
        self.examples: Sequence[str] = ()
        """Command lines that the help shows."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:  # noqa: ANN401
        """Add an option or argument as argparse does."""
        text = options.get("help")
        if isinstance(text, str):
            shown = text.replace("%(default)s", str(options.get("default")).replace("%", "%%"))
            options["help"] = _protect(shown)
        return super().add_argument(*names, **options)

    def format_help(self) -> str:
        """Return the help, with examples at its end."""
        self.description, self.epilog = _protect(self.description), _protect(self.epilog)
        text = as_shown(super().format_help())
        examples = "".join(f"  {line}\n" for line in self.examples)
        return f"{text}\nexamples:\n{examples}" if examples else text

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line; an unknown option is an error of the command that was given."""
        args, unknown = self.parse_known_args(arguments)
        if unknown:
            command = getattr(args, "parser", self)
            command.error(f"unrecognized arguments: {' '.join(unknown)}")
        return args

    def error(self, message: str) -> NoReturn:
        """Print usage and error, with a suggestion, and end with status 2."""
        import difflib  # noqa: PLC0415 - never while serving

        given, allowed = "", list[str]()
        if choice := _INVALID_CHOICE.search(message):
            given, allowed = choice[1], re.findall(r"[\w-]+", choice[2])
        elif unknown := _UNRECOGNIZED.search(message):
            given, allowed = unknown[1], _OPTION.findall(self.format_help())
        near = difflib.get_close_matches(given, allowed, n=1)
        super().error(f"{message}; did you mean {near[0]}?" if near else message)


def as_shown(text: str) -> str:
    """Return a text in which hyphens are protected from line breaks as people read it."""
    return text.replace(_NON_BREAKING_HYPHEN, "-")


def _protect(text: str | None) -> str | None:
    return text and re.sub(r"(?<=\S)-(?=\S)", _NON_BREAKING_HYPHEN, text)


def number_argument(most: int) -> Callable[[str], int]:
    """Return the type of an option: a number from 1 to `most`."""

    def parse(text: str) -> int:
        is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        if is_short and 0 < int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number from 1 to {most}")

    return parse
