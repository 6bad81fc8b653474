import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.identity import Identity, identity_of


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NRI_PLUGIN_NAME": "numamem", "NRI_PLUGIN_IDX": "07"}, Identity("numamem", "07")),
        ({"NRI_PLUGIN_NAME": "07-numamem", "NRI_PLUGIN_IDX": "07"}, Identity("numamem", "07")),
        ({"NRI_PLUGIN_NAME": "numamem"}, Identity("numamem", "10")),
    ],
)
def test_a_launched_plugin_has_the_name_that_the_runtime_passes(
    environment: dict[str, str], expected: Identity
) -> None:
    assert identity_of(environment) == expected


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(UsageError, match="NRI_PLUGIN_NAME is not set"):
        identity_of({"NRI_PLUGIN_IDX": "07"})
