"""A configuration file with all keys, their meaning and their defaults, to copy and edit.

As in the example files of many daemons, "# " begins an explanation, and "#" before a key marks a
default. A file without its explanations and these marks is a configuration of the defaults.
"""

import itertools
import textwrap
from collections.abc import Iterable, Iterator

from nri_numamem.config.reference import SETTINGS
from nri_numamem.config.setting import Setting

_HEAD = """\
# Configuration of nri-numamem in YAML. All keys are optional; a line such as #key: value shows a
# default. Check a changed file with: nri-numamem config check FILE
"""
_WIDTH = 100


def example_text() -> str:
    """Return the text of the file, which sets nothing."""
    groups = itertools.groupby(SETTINGS, key=lambda setting: setting.key.partition(".")[0])
    return "\n".join((_HEAD, *("\n".join(_lines(top, members)) + "\n" for top, members in groups)))


def _lines(top: str, members: Iterable[Setting]) -> Iterator[str]:
    """Yield the lines of one key, or of a key and the keys inside its mapping."""
    for index, setting in enumerate(members):
        option = setting.key.partition(".")[2]
        if option and index == 0:
            yield f"#{top}:"
        yield from _explained(setting)
        default = f" {setting.default}" if setting.default else ""
        yield f"#  {option}:{default}" if option else f"#{top}:{default}"


def _explained(setting: Setting) -> list[str]:
    text = setting.meaning.replace("`", "")
    values = setting.type.replace("`", "")
    return textwrap.wrap(
        f"{text} Values: {values}.",
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )
