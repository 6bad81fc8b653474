"""What the runtime shows of a Burstable container's memory request."""

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.memorymanager.burstable import BurstableFacts
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.burstable import BurstableReader, reserved_bytes
from nri_numamem.nri.decode import Decoder

PARENT = "/kubepods/burstable/podu"
MI = 1 << 20


def message(unified: Mapping[str, str], score: int | None = None) -> api.Container:
    container = api.Container(id="c", pod_sandbox_id="s", name="main")
    container.linux.resources.unified.update(unified)
    if score is not None:
        container.linux.oom_score_adj.value = score
    return container


def sandbox(parent: str = PARENT) -> api.PodSandbox:
    return api.PodSandbox(id="s", uid="u", linux=api.LinuxPodSandbox(cgroup_parent=parent))


def decoder(reader: BurstableReader | None) -> Decoder:
    return Decoder(lambda _parent: {}, burstable=reader)


@pytest.mark.parametrize(
    ("unified", "expected"),
    [
        ({}, None),
        ({"memory.high": "5"}, None),
        ({"memory.low": "0"}, None),
        ({"memory.low": "max"}, None),
        ({"memory.low": " 7\n"}, 7),
        ({"memory.min": "9"}, 9),
        ({"memory.low": "7", "memory.min": "9"}, 9),
        ({"memory.min": "9" * 20}, 2**63 - 1),
        ({"memory.min": "9" * 21}, None),
        ({"memory.min": "-1"}, None),
    ],
)
def test_the_reservation(unified: Mapping[str, str], expected: int | None) -> None:
    resources = api.LinuxResources(unified=unified)
    assert reserved_bytes(resources) == expected
    assert dict(resources.unified) == unified


def test_a_burstable_container_has_its_facts_if_the_setting_is_active() -> None:
    request = SimpleNamespace(pod=sandbox(), container=message({"memory.low": "7"}, -3))
    facts = BurstableFacts(7, -3)
    seen: list[tuple[PodSandbox, Container]] = []

    def available(pod: PodSandbox, container: Container) -> Mapping[int, int]:
        seen.append((pod, container))
        return {0: 5}

    reader = BurstableReader(is_active=True, sets_oom_score_adj=True, available_memory=available)
    event = decoder(reader).create_container(request)
    assert event.container.burstable == facts
    assert (event.available_memory, event.sets_oom_score_adj) == ({0: 5}, True)
    assert seen == [(event.pod, event.container)]
    running = decoder(reader).running_container(request.container, PARENT)
    assert running.burstable == facts
    for off in (BurstableReader(available_memory=available), None):
        event = decoder(off).create_container(request)
        assert event.container.burstable is None
        assert (event.available_memory, event.sets_oom_score_adj) == (None, False)
        assert decoder(off).running_container(request.container, PARENT).burstable is None
    assert len(seen) == 1


def test_other_pods_have_no_facts() -> None:
    reader = BurstableReader(is_active=True)
    for parent in ("/kubepods/podu", "/kubepods/besteffort/podu", "/my-burstable/kubepods/podu"):
        request = SimpleNamespace(pod=sandbox(parent), container=message({}))
        assert decoder(reader).create_container(request).container.burstable is None
    request = SimpleNamespace(pod=sandbox(), container=message({}))
    assert decoder(reader).create_container(request).container.burstable == BurstableFacts()


def test_an_update_shows_the_new_reservation() -> None:
    request = api.UpdateContainerRequest(pod=sandbox(), container=message({"memory.low": "7"}))
    request.linux_resources.memory.limit.value = 9 * MI
    request.linux_resources.unified["memory.low"] = "8"
    event = decoder(BurstableReader(is_active=True)).update_container(request)
    assert (event.memory_limit_bytes, event.reserved_bytes) == (9 * MI, 8)
    assert event.container.burstable == BurstableFacts(7)
    event = decoder(None).update_container(request)
    assert (event.memory_limit_bytes, event.reserved_bytes) == (9 * MI, None)
    assert event.container.burstable is None
