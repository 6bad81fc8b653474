import pytest

from tests.laboratory.version import RuntimeVersion


def _of(*nri_version: int) -> RuntimeVersion:
    major, minor, patch = nri_version
    return RuntimeVersion("containerd", "v1.7.0", (major, minor, patch))


@pytest.mark.parametrize(
    ("nri_version", "mask"),
    [
        ((0, 3, 0), 0x7FF),
        ((0, 9, 0), 0x7FF),
        ((0, 9, 1), 0x1FFF),
        ((0, 10, 0), 0x3FFF),
        ((0, 12, 2), 0x3FFF),
    ],
)
def test_event_mask(nri_version: tuple[int, int, int], mask: int) -> None:
    assert _of(*nri_version).event_mask == mask


def test_changes_of_0_4_and_0_6() -> None:
    assert _of(0, 3, 0).passes_full_plugin_name
    assert not _of(0, 4, 0).passes_full_plugin_name
    assert _of(0, 5, 0).leaks_descriptor
    assert not _of(0, 6, 0).leaks_descriptor


def test_changes_of_0_7() -> None:
    old, new = _of(0, 6, 1), _of(0, 7, 0)
    for question in (
        "sends_timeouts",
        "splits_synchronize",
        "synchronizes_launched",
        "closes_after_failed_synchronize",
        "kills_closed_plugins",
    ):
        assert not getattr(old, question)
        assert getattr(new, question)
    assert old.max_frame_payload_bytes == 16 << 20
    assert new.max_frame_payload_bytes == (4 << 20) + 10


def test_changes_of_0_12() -> None:
    old, new = _of(0, 11, 0), _of(0, 12, 0)
    for question in ("sends_nri_version", "has_dedicated_calls", "checks_plugin_names"):
        assert not getattr(old, question)
        assert getattr(new, question)
    assert new.nri_version_text == "v0.12.0"


def test_is_crio() -> None:
    assert RuntimeVersion("cri-o", "1.35.0", (0, 11, 0)).is_crio
    assert not RuntimeVersion("v2", "2.0.1", (0, 8, 0)).is_crio
