"""Reservations of nodes and of the host; test_settings has them as a part of all settings."""

import pytest

from nri_numamem.config.reservations import AMOUNTS, RESERVATIONS, THRESHOLDS
from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager.reserved_memory import Reservation

MI = 1 << 20
PATH = ("reservedMemory",)


def test_reservations_are_read_and_written() -> None:
    document = [{"numaNode": 1, "limits": {"memory": "1Mi", "hugepages-2048Ki": "4Mi"}}]
    found = RESERVATIONS.read(PATH, document)
    assert found == (Reservation(1, {"memory": MI, "hugepages-2Mi": 4 * MI}),)
    assert RESERVATIONS.read(PATH, RESERVATIONS.write(found)) == found
    assert RESERVATIONS.write(()) is None


def test_hugepages_are_reserved_as_whole_pages() -> None:
    document = [{"numaNode": 0, "limits": {"hugepages-2Mi": "3Mi"}}]
    with pytest.raises(SettingsError, match="write a multiple of 2Mi, such as 4Mi"):
        RESERVATIONS.read(PATH, document)


def test_amounts_stay_text() -> None:
    found = THRESHOLDS.read(("evictionHard",), {"memory.available": "10%"})
    assert found == THRESHOLDS.write(found) == {"memory.available": "10%"}
    with pytest.raises(SettingsError, match=r"kubeReserved.memory: '10%'"):
        AMOUNTS.read(("kubeReserved",), {"memory": "10%"})
    with pytest.raises(SettingsError, match="did you mean memory"):
        AMOUNTS.read(("kubeReserved",), {"memroy": "1Gi"})
    assert AMOUNTS.write({}) is None
