"""The setting `residency`: whether the plugin watches where the pages of containers are."""

import re

from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_go_bool,
    read_integer,
    read_mapping,
    read_quantity,
    show,
)
from nri_numamem.engine.features.residency.setting import OFF, HeadRoomLimit, Residency

RESIDENCY = "residency"
INTERVAL, PER_CONTAINER = "intervalSeconds", "perContainerMetrics"
REMOTE_PERCENT, HEAD_ROOM = "remotePercent", "headRoom"

INTERVAL_MOST_S = 3600
_PERCENTAGE = re.compile(r"([1-9]\d?)%", re.ASCII)


def read_residency(value: object) -> Residency:
    """Return the setting of a parsed document; raise SettingsError for the first invalid value."""
    path = (RESIDENCY,)
    mapping = read_mapping(path, value, (INTERVAL, PER_CONTAINER, REMOTE_PERCENT, HEAD_ROOM))

    def number(key: str, default: int, least: int, most: int) -> int:
        found = mapping.get(key)
        return (
            default if found is None else read_integer((*path, key), found, least=least, most=most)
        )

    here = (*path, PER_CONTAINER)
    setting = Residency(
        number(INTERVAL, OFF.interval_s, 0, INTERVAL_MOST_S),
        read_go_bool(here, mapping.get(PER_CONTAINER), default=OFF.per_container),
        number(REMOTE_PERCENT, OFF.remote_percent, 1, 100),
        _read_limit((*path, HEAD_ROOM), mapping.get(HEAD_ROOM)),
    )
    for key, is_set in ((HEAD_ROOM, setting.head_room), (PER_CONTAINER, setting.per_container)):
        if is_set and not setting.interval_s:
            remedy = f"set {RESIDENCY}.{INTERVAL}, such as 60"
            raise SettingsError((*path, key), f"no effect without {INTERVAL}", remedy)
    return setting


def residency_document(setting: Residency) -> dict[str, object]:
    """Return the document from which read_residency() makes an equal value."""
    document: dict[str, object] = {
        INTERVAL: setting.interval_s,
        PER_CONTAINER: setting.per_container,
        REMOTE_PERCENT: setting.remote_percent,
    }
    limit = setting.head_room
    if limit is not None:
        document[HEAD_ROOM] = f"{limit.percent}%" if limit.percent else str(limit.size_bytes)
    return document


def _read_limit(path: SettingsPath, value: object) -> HeadRoomLimit | None:
    if value is None:
        return None
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return HeadRoomLimit(percent=int(match[1]))
    try:
        size_bytes = read_quantity(path, value)
    except SettingsError:
        size_bytes = 0
    if size_bytes <= 0:
        remedy = "write an amount such as 2Gi, or a percentage from 1% to 99%"
        raise SettingsError(path, f"{show(value)} is no limit", remedy)
    return HeadRoomLimit(size_bytes=size_bytes)
