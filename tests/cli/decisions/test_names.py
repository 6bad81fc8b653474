"""The names in an entry of the history."""

from nri_numamem.cli.decisions.names import names_of
from tests.cli.explain.stories import recorded


def test_names() -> None:
    pod = {"namespace": "ns", "pod": "p", "pod_uid": "u"}
    names = names_of(recorded(1, "admitted", "", {**pod, "container": "c"}))
    assert (names.full_pod, names.key) == ("ns/p", ("u", "c"))
    assert names_of(recorded(1, "pod_released", "", pod)).key == ("u", "")
    assert names_of(recorded(1, "stopped")).key == ("", "")
