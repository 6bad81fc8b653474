"""Stands for a library that the single executable file does not have; see freeze.py.

Every name is a class, so that annotations and default values work. Making an object of one fails.
"""

from typing import NoReturn


def __getattr__(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Exception,), {"__init__": _fail})


def _fail(self: Exception, *_arguments: object, **_options: object) -> NoReturn:
    raise NotImplementedError(f"{type(self).__name__} is not part of the single executable file")
