"""The program's version and form; pyproject.toml and all packages take the version from here."""

import sys

VERSION = "0.2.0"


def is_single_file() -> bool:
    """Return whether this process runs the single executable file."""
    return bool(getattr(sys, "frozen", False))
