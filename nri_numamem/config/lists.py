"""Read lists of a parsed settings document; see ``config.values``."""

from nri_numamem.config.values import SettingsError, SettingsPath, show

# Namespaces and handlers are DNS labels or names; the API server accepts at most 253 characters.
_NAME_LIMIT = 253


def read_names(path: SettingsPath, value: object, what: str) -> tuple[str, ...]:
    """Return a list of names such as namespaces, without repetitions; null gives none.

    `what` is one of them in words, such as "a namespace".
    """
    names: dict[str, None] = {}
    for index, name in enumerate(read_list(path, value, f"write a list, each {what}")):
        if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT or not name.isprintable():
            raise SettingsError((*path, index), f"{show(name)} is not {what}", f"write {what}")
        names[name] = None
    return tuple(names)


def read_list(path: SettingsPath, value: object, remedy: str) -> list[object]:
    """Return a list; null gives an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise SettingsError(path, f"{show(value)} instead of a list", remedy)
    return value
