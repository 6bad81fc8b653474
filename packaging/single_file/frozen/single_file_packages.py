"""Versions of the packages in the single executable file, for importlib.metadata."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution
from os import PathLike
from typing import NoReturn

from single_file_contents import VERSIONS


class _Package(Distribution):
    """A package with a name and a version, and without files."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the package's metadata; None for other files."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {VERSIONS[self._name]}\n"

    def locate_file(self, path: str | PathLike[str]) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            f"{path}: the packages in the single executable file have no files"
        )


def find(name: str | None) -> Iterator[Distribution]:
    """Yield the package of a name, or all packages."""
    for package in VERSIONS:
        if name is None or _normalized(package) == _normalized(name):
            yield _Package(package)


def _normalized(name: str) -> str:
    """Return the form of a package's name that compares (PEP 503)."""
    return re.sub("[-_.]+", "-", name).lower()
