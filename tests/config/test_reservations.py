"""Reservations of nodes and of the host; test_settings has them as a part of all settings."""

import pytest

from nri_numamem.config.reservations import (
    read_amounts,
    read_reservations,
    reservations_document,
)
from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager.reserved_memory import Reservation

MI = 1 << 20


def test_reservations_are_read_and_written() -> None:
    document = [{"numaNode": 1, "limits": {"memory": "1Mi", "hugepages-2048Ki": "4Mi"}}]
    found = read_reservations(document)
    assert found == (Reservation(1, {"memory": MI, "hugepages-2Mi": 4 * MI}),)
    assert read_reservations(reservations_document(found)) == found
    assert read_reservations(None) == ()


def test_hugepages_are_reserved_as_whole_pages() -> None:
    document = [{"numaNode": 0, "limits": {"hugepages-2Mi": "3Mi"}}]
    with pytest.raises(SettingsError, match="write a multiple of 2Mi, such as 4Mi"):
        read_reservations(document)


def test_amounts_stay_text() -> None:
    assert read_amounts("evictionHard", {"memory.available": "10%"}, ("memory.available",)) == {
        "memory.available": "10%"
    }
    with pytest.raises(SettingsError, match=r"kubeReserved.memory: '10%'"):
        read_amounts("kubeReserved", {"memory": "10%"}, ("memory",))
    with pytest.raises(SettingsError, match="did you mean memory"):
        read_amounts("kubeReserved", {"memroy": "1Gi"}, ("memory",))
