"""The reference has every key of the setting residency."""

from nri_numamem.config.reference_residency import RESIDENCY_SETTINGS
from nri_numamem.config.residency import read_residency, residency_document


def test_every_key_is_described() -> None:
    document = residency_document(read_residency({"intervalSeconds": 9, "headRoom": "1%"}))
    assert sorted(setting.key for setting in RESIDENCY_SETTINGS) == sorted(
        f"residency.{key}" for key in document
    )
