"""What the runtime shows of a Burstable container's memory request."""

from collections.abc import Mapping
from types import SimpleNamespace

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.memorymanager.burstable import BurstableFacts
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import Decoder
from tests.nri.facts import Facts

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


def test_a_burstable_container_has_its_facts_if_the_setting_is_active() -> None:
    request = SimpleNamespace(pod=sandbox(), container=message({"memory.low": "7"}, -3))
    facts = BurstableFacts(7, -3)
    seen: list[tuple[PodSandbox, Container]] = []

    def available(pod: PodSandbox, container: Container) -> Mapping[int, int]:
        seen.append((pod, container))
        return {0: 5}

    reader = Facts(pins_burstable=True, sets_oom_score_adj=True, available_memory=available)
    event = Decoder(reader).create_container(request)
    assert event.container.burstable == facts
    assert (event.available_memory, event.sets_oom_score_adj) == ({0: 5}, True)
    assert seen == [(event.pod, event.container)]
    running = Decoder(reader).running_container(request.container, PARENT)
    assert running.burstable == facts
    for off in (Facts(available_memory=available), Facts()):
        event = Decoder(off).create_container(request)
        assert event.container.burstable is None
        assert (event.available_memory, event.sets_oom_score_adj) == (None, False)
        assert Decoder(off).running_container(request.container, PARENT).burstable is None
    assert len(seen) == 1


def test_other_pods_have_no_facts() -> None:
    reader = Facts(pins_burstable=True)
    for parent in ("/kubepods/podu", "/kubepods/besteffort/podu", "/my-burstable/kubepods/podu"):
        request = SimpleNamespace(pod=sandbox(parent), container=message({}))
        assert Decoder(reader).create_container(request).container.burstable is None
    request = SimpleNamespace(pod=sandbox(), container=message({}))
    assert Decoder(reader).create_container(request).container.burstable == BurstableFacts()


def test_an_update_shows_the_new_reservation() -> None:
    request = api.UpdateContainerRequest(pod=sandbox(), container=message({"memory.low": "7"}))
    request.linux_resources.memory.limit.value = 9 * MI
    request.linux_resources.unified["memory.low"] = "8"
    event = Decoder(Facts(pins_burstable=True)).update_container(request)
    assert (event.memory_limit_bytes, event.reserved_bytes) == (9 * MI, 8)
    assert event.container.burstable == BurstableFacts(7)
    event = Decoder().update_container(request)
    assert (event.memory_limit_bytes, event.reserved_bytes) == (9 * MI, None)
    assert event.container.burstable is None
