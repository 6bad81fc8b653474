"""The command lines that the documents and the help print."""

import importlib
import re
from pathlib import Path

from nri_numamem.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md"))]
_SHELL = re.compile(r"^ *```(?:sh|console|bash)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")


def documented_commands(pattern: str) -> list[str]:
    """Return the command lines in which a pattern is found, without their comments."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text()
        lines = [line for block in _SHELL.findall(text) for line in block.splitlines()]
        for line in (*lines, *_INLINE.findall(_SHELL.sub("", text))):
            found[re.sub(r"(^|\s)#.*", "", line).strip()] = None
    for command in COMMANDS:
        found |= dict.fromkeys(importlib.import_module(f"nri_numamem.cli.{command}").EXAMPLES)
    return [line for line in found if re.search(pattern, line)]
