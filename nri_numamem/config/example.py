"""A configuration file with all keys, their meaning and their defaults, to copy and edit.

As in the example files of many daemons, "# " begins an explanation, and "#" before a key marks a
default. A file without its explanations and these marks is a configuration of the defaults.
"""

import itertools
import textwrap
from collections.abc import Iterable, Iterator

from nri_numamem.config.setting import Setting
from nri_numamem.config.settings import described_settings

_HEAD = """\
# Configuration of nri-numamem in YAML. All keys are optional; a line such as #key: value shows a
# default. Check a changed file with: nri-numamem config check FILE
"""
_WIDTH = 100


def example_text() -> str:
    """Return the text of the file, which sets nothing."""
    groups = itertools.groupby(described_settings(), key=lambda found: found[0].partition(".")[0])
    return "\n".join((_HEAD, *("\n".join(_lines(top, members)) + "\n" for top, members in groups)))


def _lines(top: str, members: Iterable[tuple[str, str, Setting]]) -> Iterator[str]:
    """Yield the lines of one key, or of a key and the keys inside its mapping."""
    for index, (key, default, row) in enumerate(members):
        option = key.partition(".")[2]
        if option and index == 0:
            yield f"#{top}:"
        yield from _explained(row)
        value = f" {default}" if default else ""
        yield f"#  {option}:{value}" if option else f"#{top}:{value}"


def _explained(row: Setting) -> list[str]:
    text = f"{row.meaning} Values: {row.kind.type}.".replace("`", "")
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
