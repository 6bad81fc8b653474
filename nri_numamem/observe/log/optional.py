"""Import a library without one of its optional dependencies."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_installed(name: str) -> Iterator[None]:
    """Let imports of a package fail in this context, as if it were not installed.

    A package that was imported before stays. Source: Python Language Reference, "The module cache".
    """
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        yield
    finally:
        del sys.modules[name]
