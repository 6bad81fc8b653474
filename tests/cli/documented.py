"""The keys that docs/output.md documents."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs/output.md").read_text()


def documented_keys(command: str) -> list[str]:
    """Return the keys in the table of a command's document, in the order of the page."""
    cells = re.findall(r"^\| (`.*?) \|", _section(command), re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


def documented_entry(command: str, key: str) -> list[str]:
    """Return the keys of the entries of a list in a command's document."""
    (text,) = re.findall(rf"^\| `{key}` \| (.*) \|$", _section(command), re.MULTILINE)
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))


def _section(command: str) -> str:
    return TEXT.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
