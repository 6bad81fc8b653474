"""Files with the screens of commands; UPDATE_SCREENS=1 writes them instead of comparing."""

import os
from pathlib import Path


def check_screen(shown: str, file: Path) -> None:
    """Fail unless a screen equals its file; with UPDATE_SCREENS the file is written first."""
    if os.environ.get("UPDATE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")
