"""The memory limit of a container's cgroup beside the one that the runtime reports."""

import pytest

from nri_numamem.engine.core.events import Container
from nri_numamem.nri.container_cgroup import no_container_memory, no_cpuset, with_present_limit

MI = 1 << 20


@pytest.mark.parametrize(
    ("reported", "cgroup", "expected"),
    [
        (None, None, None),
        (200 * MI, None, 200 * MI),
        (200 * MI, 300 * MI, 300 * MI),
        (300 * MI, 200 * MI, 200 * MI),
        (None, 200 * MI, 200 * MI),
        (200 * MI + 4095, 200 * MI, 200 * MI + 4095),  # the kernel rounds to whole pages
        (200 * MI, 200 * MI + 1, 200 * MI + 1),
    ],
)
def test_the_cgroup_has_the_present_memory_limit(
    reported: int | None, cgroup: int | None, expected: int | None
) -> None:
    container = Container("c", "s", "main", memory_limit_bytes=reported)
    assert with_present_limit(container, cgroup).memory_limit_bytes == expected


def test_without_a_reader_the_container_stays_as_it_is() -> None:
    container = Container("c", "s", "main", memory_limit_bytes=MI)
    assert no_cpuset(container, "", "") is container
    assert with_present_limit(container, no_container_memory("")) is container
