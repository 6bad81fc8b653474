"""The effective settings: each key with its value, and where the value was written."""

from nri_numamem.config.settings import KEYS, STATE_FILE, Settings, settings_to_mapping

DEFAULT = "default"
"""The origin of a setting that nothing sets."""


def effective_settings(settings: Settings) -> dict[str, tuple[object, str]]:
    """Return key -> value and origin of every setting; an unset value is None."""
    effective = {"stateFile": STATE_FILE, **settings_to_mapping(settings)}
    return {key: (effective.get(key), settings.place_of((key,)) or DEFAULT) for key in KEYS}
