"""The files of the host that is checked, below a root directory.

In a container the root directory is where the host's file system is mounted, such as /host. A
missing file is no error.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.config.documents import open_without_waiting
from nri_numamem.config.host_paths import below

_LIMIT_BYTES = 4 * 1024 * 1024


class UnreadableError(Exception):
    """A file exists and cannot be read or parsed; the text is one line that names it."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host below a root directory."""

    root: Path = Path("/")

    @property
    def is_this_host(self) -> bool:
        """Whether this is the root directory of this process, not that of a mount or image.

        Compares the directories: the text of the link /proc/1/root is "/" in a container too.
        """
        try:
            return self.root.samefile("/")
        except OSError:
            return False

    def path(self, name: str) -> Path:
        """Return the path of a host's file below the root; links are followed.

        Raises UsageError for links that cannot be followed.
        """
        return below(self.root, name)

    def entry(self, name: str) -> Path:
        """Return the path of a host's file below the root; its last part may be a link."""
        parent, _, last = name.rpartition("/")
        return self.path(parent or "/") / last

    def kernel_release(self) -> str:
        """Return the kernel's release, such as "6.12.57"; "" if it cannot be read."""
        try:
            # The kernel refuses large reads of this file with ENOMEM.
            return self.path("/proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def read(self, name: str) -> str | None:
        """Return a file's text; None if it is missing. Raise UnreadableError."""
        try:
            with open(self.path(name), "rb", opener=open_without_waiting) as file:
                return file.read(_LIMIT_BYTES).decode("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnreadableError(f"{name}: {error.strerror}") from error

    def toml(self, name: str) -> Mapping[str, object] | None:
        """Return a parsed TOML file; None if it is missing. Raise UnreadableError."""
        text = self.read(name)
        try:
            return None if text is None else tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UnreadableError(f"{name}: {error}") from error

    def names(self, name: str) -> list[str]:
        """Return the sorted names in a directory; none if it is missing. Raise UnreadableError."""
        try:
            return sorted(entry.name for entry in self.path(name).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnreadableError(f"{name}: {error.strerror}") from error


def at(document: object, *keys: str) -> object:
    """Return the value below nested keys; None if one is missing."""
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document
