"""Quantities as the API server shows them."""

import pytest

from nri_numamem.export.amounts import Amounts, resource_of_cpus, resource_of_units


def test_bytes() -> None:
    assert resource_of_units("memory", Amounts(1 << 34, 1 << 33, 0)) == {
        "name": "memory",
        "capacity": "17179869184",
        "allocatable": "8589934592",
        "available": "0",
    }


@pytest.mark.parametrize(
    ("millicores", "text"), [(0, "0"), (1, "1m"), (1000, "1"), (1500, "1500m"), (64000, "64")]
)
def test_cpus(millicores: int, text: str) -> None:
    resource = resource_of_cpus(Amounts(64000, 62000, millicores))
    assert resource == {
        "name": "cpu",
        "capacity": "64",
        "allocatable": "62",
        "available": text,
    }
