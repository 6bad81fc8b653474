from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest, PolicySupport
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.claims import ClaimUse
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import _SANDBOX_CACHE_SIZE, Decoder, _with_present_limit
from nri_numamem.nri.host_facts import Device
from nri_numamem.nri.messages import _DEVICES_LIMIT
from nri_numamem.numa import NodeSet
from tests.nri.facts import Facts

MI = 1 << 20


class PodCgroups:
    """Records the reads of pods' cgroups."""

    def __init__(self, limits: Mapping[int, int]) -> None:
        self.limits = limits
        self.read: list[str] = []

    def __call__(self, cgroup_parent: str) -> Mapping[int, int]:
        self.read.append(cgroup_parent)
        return self.limits


def pod(sandbox_id: str = "sandbox") -> api.PodSandbox:
    found = api.PodSandbox(id=sandbox_id, uid="uid", name="pod", namespace="ns")
    found.linux.cgroup_parent = "/kubepods/poduid"
    found.linux.pod_resources.memory.limit.value = 300 * MI
    return found


def container() -> api.Container:
    found = api.Container(id="c", pod_sandbox_id="sandbox", name="main")
    found.linux.resources.memory.limit.value = 200 * MI
    found.linux.resources.cpu.cpus = "2-3"
    found.linux.resources.cpu.mems = "1"
    return found


def test_sandbox_and_container_creation_have_the_kernels_pools() -> None:
    use = PoolUse({0: {"hugepages-2Mi": Pool(0, 8 * MI)}}, {})
    calls: list[tuple[str, str | None]] = []

    def read(pod: events.PodSandbox, container: events.Container | None) -> PoolUse:
        calls.append((pod.uid, None if container is None else container.name))
        return use

    decoder = Decoder(Facts(PodCgroups({2 * MI: 8 * MI}), pool_use=read))
    assert decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod())).pool_use is use
    request = api.CreateContainerRequest(pod=pod(), container=container())
    assert decoder.create_container(request).pool_use is use
    assert calls == [("uid", None), ("uid", "main")]
    decoder = Decoder(Facts(pool_use=read))
    assert decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod())).pool_use is None
    assert decoder.create_container(request).pool_use is None
    request.container.linux.resources.hugepage_limits.add(page_size="2MB", limit=8 * MI)
    assert decoder.create_container(request).pool_use is use


def create(made: api.Container) -> events.Container:
    request = api.CreateContainerRequest(pod=pod(), container=made)
    return Decoder().create_container(request).container


def test_create_container_has_all_facts_of_a_decision() -> None:
    cgroups = PodCgroups({2 * MI: 4 * MI})
    request = api.CreateContainerRequest(pod=pod(), container=container())
    assert Decoder(Facts(cgroups)).create_container(request) == events.CreateContainer(
        events.PodSandbox(
            sandbox_id="sandbox",
            uid="uid",
            namespace="ns",
            name="pod",
            cgroup_parent="/kubepods/poduid",
            memory_limit_bytes=300 * MI,
            hugepage_limits={2 * MI: 4 * MI},
        ),
        events.Container(
            container_id="c",
            sandbox_id="sandbox",
            name="main",
            memory_limit_bytes=200 * MI,
            hugepage_limits=None,
            cpuset_mems="1",
            cpuset_cpus="2-3",
        ),
    )
    assert cgroups.read == ["/kubepods/poduid"]


PROGRAM = "/usr/libexec/nri-numamem/claim-hook"
ARGUMENTS = ["claim-hook", "uid-1", "mem", "1", "memory@1=4096", "ns/claim"]
CLAIM = ClaimUse("uid-1", "mem", {1: {"memory": 4096}}, "ns/claim")


def with_hooks(*hooks: tuple[str, list[str]]) -> api.Container:
    made = container()
    for path, arguments in hooks:
        made.hooks.create_runtime.add(path=path, args=arguments)
    return made


@pytest.mark.parametrize(
    ("hooks", "claims"),
    [
        ([(PROGRAM, ARGUMENTS)], (CLAIM,)),
        ([("/other", ARGUMENTS), (PROGRAM, ARGUMENTS), (PROGRAM, ARGUMENTS)], (CLAIM, CLAIM)),
        ([(PROGRAM, [*ARGUMENTS, "more"])], (CLAIM,)),
        ([(PROGRAM, [])], (ClaimUse("", "", {}),)),
        ([(PROGRAM, [*ARGUMENTS[:4], "memory@1=x"])], (ClaimUse("uid-1", "mem", {}),)),
        ([(f"{PROGRAM}/", ARGUMENTS)], ()),
        ([], ()),
    ],
)
def test_the_hooks_of_the_program_have_the_claims_of_a_container(
    hooks: list[tuple[str, list[str]]], claims: tuple[ClaimUse, ...]
) -> None:
    request = api.CreateContainerRequest(pod=pod(), container=with_hooks(*hooks))
    decoder = Decoder(Facts(hook_program=PROGRAM))
    assert decoder.create_container(request).container.claims == claims
    assert decoder.running_container(request.container, None).claims == claims
    assert Decoder().create_container(request).container.claims == ()


def test_an_empty_message_is_no_error() -> None:
    event = Decoder().create_container(api.CreateContainerRequest())
    assert event.pod.cgroup_parent == ""
    assert event.container.memory_limit_bytes is None


def test_zero_absent_and_unlimited_memory_become_none() -> None:
    for value in (0, -1):
        made = container()
        made.linux.resources.memory.limit.value = value
        assert create(made).memory_limit_bytes is None
    assert create(api.Container()).memory_limit_bytes is None


def test_hugepage_limits_include_zeros() -> None:
    made = container()
    made.linux.resources.hugepage_limits.add(page_size="2MB", limit=4 * MI)
    made.linux.resources.hugepage_limits.add(page_size="1GB", limit=0)
    made.linux.resources.hugepage_limits.add(page_size="many", limit=7)
    assert create(made).hugepage_limits == {2 * MI: 4 * MI, 1024 * MI: 0}


def test_the_pods_cgroup_is_read_once_per_start_of_a_sandbox() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(Facts(cgroups))
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod()))
    decoder.create_container(api.CreateContainerRequest(pod=pod(), container=container()))
    assert len(cgroups.read) == 1
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod()))
    assert len(cgroups.read) == 2
    decoder.forget_sandboxes()
    decoder.sandbox(pod())
    assert len(cgroups.read) == 3


class PodMemory:
    """The memory limit of every pod's cgroup, which tests change."""

    def __init__(self, limit_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes

    def __call__(self, _cgroup_parent: str) -> int | None:
        return self.limit_bytes


@pytest.mark.parametrize(
    ("of_cgroup", "overhead", "expected"),
    [
        (None, 0, 300 * MI),
        (300 * MI, 0, 300 * MI),
        (350 * MI, 0, 350 * MI),
        (350 * MI, 50 * MI, 300 * MI),
        (250 * MI, 0, 300 * MI),
        (10 * MI, 50 * MI, 300 * MI),
    ],
)
def test_the_pods_limit_is_the_larger_one_without_overhead(
    of_cgroup: int | None, overhead: int, expected: int
) -> None:
    made = pod()
    made.linux.pod_overhead.memory.limit.value = overhead
    decoder = Decoder(Facts(memory_limit=PodMemory(of_cgroup)))
    assert decoder.sandbox(made).memory_limit_bytes == expected


def test_without_a_figure_of_the_runtime_the_cgroup_has_the_limit() -> None:
    made = pod()
    made.linux.ClearField("pod_resources")
    assert Decoder().sandbox(made).memory_limit_bytes is None
    decoder = Decoder(Facts(memory_limit=PodMemory(7 * MI)))
    assert decoder.sandbox(made).memory_limit_bytes == 7 * MI


def test_a_resize_reads_the_pods_cgroup_again() -> None:
    cgroups, memory = PodCgroups({}), PodMemory(300 * MI)
    decoder = Decoder(Facts(cgroups, memory_limit=memory))
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod()))
    memory.limit_bytes = 500 * MI
    update = api.UpdateContainerRequest(pod=pod(), container=container())
    assert decoder.update_container(update).pod.memory_limit_bytes == 300 * MI
    assert len(cgroups.read) == 1
    update.linux_resources.memory.limit.value = 400 * MI
    assert decoder.update_container(update).pod.memory_limit_bytes == 500 * MI
    assert len(cgroups.read) == 2


def test_an_update_of_a_pod_replaces_the_limit_of_its_creation() -> None:
    memory = PodMemory(300 * MI)
    decoder = Decoder(Facts(memory_limit=memory))
    decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod()))
    memory.limit_bytes = 200 * MI
    request = api.UpdatePodSandboxRequest(pod=pod())
    assert decoder.update_pod_sandbox(request).pod.memory_limit_bytes == 300 * MI
    request.linux_resources.memory.limit.value = 200 * MI
    assert decoder.update_pod_sandbox(request).pod.memory_limit_bytes == 200 * MI
    assert decoder.sandbox(pod()).memory_limit_bytes == 200 * MI
    assert (
        decoder.stop_pod_sandbox(api.StopPodSandboxRequest(pod=pod())).pod.memory_limit_bytes
        == 200 * MI
    )


def test_the_cache_of_resized_pods_is_bounded() -> None:
    decoder = Decoder()
    request = api.UpdatePodSandboxRequest()
    request.linux_resources.memory.limit.value = 200 * MI
    for number in range(_SANDBOX_CACHE_SIZE + 1):
        request.pod.CopyFrom(pod(f"sandbox-{number}"))
        decoder.update_pod_sandbox(request)
    assert decoder.sandbox(pod("sandbox-0")).memory_limit_bytes == 300 * MI
    assert decoder.sandbox(pod("sandbox-1")).memory_limit_bytes == 200 * MI


def test_ends_of_pods_and_containers_do_not_read_the_cgroup() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(Facts(cgroups))
    request = api.StopContainerRequest(pod=pod(), container=container())
    assert decoder.stop_container(request).container.container_id == "c"
    removal = api.RemoveContainerRequest(pod=pod(), container=container())
    assert decoder.remove_container(removal).pod.uid == "uid"
    assert decoder.stop_pod_sandbox(api.StopPodSandboxRequest(pod=pod())).pod.uid == "uid"
    assert decoder.remove_pod_sandbox(api.RemovePodSandboxRequest(pod=pod())).pod.uid == "uid"
    assert cgroups.read == []


def test_the_cache_of_cgroup_limits_is_bounded() -> None:
    cgroups = PodCgroups({})
    decoder = Decoder(Facts(cgroups))
    for number in range(_SANDBOX_CACHE_SIZE + 1):
        decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=pod(f"sandbox-{number}")))
    assert len(decoder._cached) == _SANDBOX_CACHE_SIZE
    assert "sandbox-0" not in decoder._cached


def test_a_stopped_container_has_ended() -> None:
    ended = container()
    ended.state = api.CONTAINER_STOPPED
    decoder = Decoder()
    found = [decoder.running_container(item, "/kubepods/poduid") for item in (ended, container())]
    assert [item.ended for item in found] == [True, False]


def test_a_runtime_that_forgets_updates_shows_the_memory_limit_of_before_a_resize() -> None:
    def with_cgroup(container: events.Container, parent: str, _path: str) -> events.Container:
        is_managed = parent == "/kubepods/poduid"
        return replace(container, cgroup_mems=NodeSet([0])) if is_managed else container

    paths: list[str] = []

    def limit_of(cgroups_path: str) -> int:
        paths.append(cgroups_path)
        return 300 * MI

    decoder = Decoder(Facts(read_cpuset=with_cgroup, container_memory=limit_of))
    made = container()
    made.linux.resources.memory.limit.value = 200 * MI
    made.linux.cgroups_path = "/kubepods/poduid/c"
    assert decoder.running_container(made, "/kubepods/poduid").memory_limit_bytes == 200 * MI
    decoder.keeps_updates = False
    other = decoder.running_container(made, "/kubepods/burstable/poduid")
    assert (other.memory_limit_bytes, paths) == (200 * MI, [])
    assert decoder.running_container(made, "/kubepods/poduid").memory_limit_bytes == 300 * MI
    assert paths == ["/kubepods/poduid/c"]


def test_update_container_has_the_new_resources() -> None:
    request = api.UpdateContainerRequest(pod=pod(), container=container())
    decoder = Decoder()
    assert decoder.update_container(request).memory_limit_bytes is None
    request.linux_resources.memory.limit.value = 400 * MI
    event = decoder.update_container(request)
    assert event.memory_limit_bytes == 400 * MI
    assert event.container.memory_limit_bytes == 200 * MI
    assert event.cpu_shares is None
    request.linux_resources.cpu.shares.value = 512
    assert decoder.update_container(request).cpu_shares == 512


class SomeDevices:
    """Returns node 1 for all devices; records its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Device]]] = []

    def __call__(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        found = list(devices)
        self.calls.append((cgroup_parent, found))
        return (NodeSet([1]),) * len(found)


def with_devices(count: int = 1) -> api.Container:
    made = container()
    for minor in range(count):
        made.linux.devices.add(path=f"/dev/vfio/{minor}", type="c", major=511, minor=minor)
    return made


def test_device_nodes_are_read_at_creation() -> None:
    devices = SomeDevices()
    decoder = Decoder(Facts(device_nodes=devices))
    request = api.CreateContainerRequest(pod=pod(), container=with_devices())
    assert decoder.create_container(request).container.device_nodes == (NodeSet([1]),)
    assert devices.calls == [("/kubepods/poduid", [Device("c", 511, 0, "/dev/vfio/0")])]
    decoder.running_container(with_devices(), "/kubepods/poduid")
    decoder.stop_container(api.StopContainerRequest(pod=pod(), container=with_devices()))
    decoder.create_container(api.CreateContainerRequest(pod=pod(), container=container()))
    assert len(devices.calls) == 1


def test_the_number_of_read_devices_is_bounded() -> None:
    request = api.CreateContainerRequest(pod=pod(), container=with_devices(_DEVICES_LIMIT + 9))
    found = Decoder(Facts(device_nodes=SomeDevices())).create_container(request).container
    assert len(found.device_nodes) == _DEVICES_LIMIT


def test_without_a_reader_devices_have_no_nodes() -> None:
    assert create(with_devices()).device_nodes == ()


@pytest.mark.parametrize(
    ("rule", "is_privileged"),
    [
        (api.LinuxDeviceCgroup(allow=True), True),
        (api.LinuxDeviceCgroup(allow=True, type="a"), True),
        (api.LinuxDeviceCgroup(allow=False), False),
        (api.LinuxDeviceCgroup(allow=True, type="c"), False),
        (api.LinuxDeviceCgroup(allow=True, major=api.OptionalInt64(value=0)), False),
        (api.LinuxDeviceCgroup(allow=True, minor=api.OptionalInt64(value=0)), False),
    ],
)
def test_devices_of_privileged_containers_are_not_read(
    rule: api.LinuxDeviceCgroup, is_privileged: bool
) -> None:
    made = with_devices()
    made.linux.resources.devices.append(rule)
    devices = SomeDevices()
    request = api.CreateContainerRequest(pod=pod(), container=made)
    Decoder(Facts(device_nodes=devices)).create_container(request)
    assert len(devices.calls) == (0 if is_privileged else 1)


def test_the_cpu_limit() -> None:
    made = container()
    made.linux.resources.cpu.quota.value = 150_000
    made.linux.resources.cpu.period.value = 100_000
    assert create(made).cpu_limit_millicores == 1500
    assert create(container()).cpu_limit_millicores is None


def test_cpu_shares() -> None:
    made = container()
    made.linux.resources.cpu.shares.value = 2048
    assert create(made).cpu_shares == 2048
    assert create(container()).cpu_shares is None


class SomeMems:
    """Has one cgroup with nodes; records its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def __call__(
        self, found: events.Container, cgroup_parent: str, cgroups_path: str
    ) -> events.Container:
        self.calls.append((cgroup_parent, cgroups_path))
        if cgroups_path != "a.slice:cri-containerd:c":
            return found
        return replace(found, cgroup_mems=NodeSet([3]))


def test_cgroups_of_containers_are_read_at_synchronize() -> None:
    placed, nowhere, ended = (container() for _ in range(3))
    placed.linux.cgroups_path = "a.slice:cri-containerd:c"
    nowhere.linux.cgroups_path = "b"
    ended.state = api.CONTAINER_STOPPED
    mems = SomeMems()
    decoder = Decoder(Facts(read_cpuset=mems))
    parent = "/kubepods/poduid"
    found = [decoder.running_container(item, parent) for item in (placed, nowhere, ended)]
    found.append(decoder.running_container(placed, None))
    assert [item.cgroup_mems for item in found] == [NodeSet([3]), None, None, None]
    assert [item.cpuset_mems for item in found] == ["1"] * 4
    calls = [(parent, "a.slice:cri-containerd:c"), (parent, "b")]
    assert mems.calls == calls
    request = api.CreateContainerRequest(pod=pod(), container=placed)
    assert decoder.create_container(request).container.cgroup_mems is None
    assert mems.calls == calls


def test_the_age_of_a_container_is_read_where_its_pods_hugepages_are_a_sum() -> None:
    asked: list[int] = []

    def process_start(pid: int) -> int:
        asked.append(pid)
        return 77

    decoder = Decoder(Facts(PodCgroups({2 * MI: 2 * MI}), process_start=process_start))
    sandbox = pod()
    decoder.sandbox(sandbox)
    old, new, shown, alone = (container() for _ in range(4))
    old.pod_sandbox_id = new.pod_sandbox_id = shown.pod_sandbox_id = sandbox.id
    shown.linux.resources.hugepage_limits.add(page_size="2MB", limit=0)
    alone.pod_sandbox_id = "another"
    old.pid, new.created_at = 12, 500
    parent = sandbox.linux.cgroup_parent
    found = [decoder.running_container(item, parent) for item in (old, new, shown, alone)]
    assert [item.creation_order for item in found] == [77, 500, 0, 0]
    assert asked == [12]


def test_a_container_with_devices() -> None:
    found = container()
    request = api.CreateContainerRequest(pod=pod(), container=found)
    assert not Decoder().create_container(request).container.has_devices
    request.container.linux.devices.add(path="/dev/fuse", type="c", major=10, minor=229)
    assert Decoder().create_container(request).container.has_devices


def test_without_a_reader_containers_have_no_cgroup_mems() -> None:
    found = Decoder().running_container(container(), "/kubepods/poduid")
    assert found.cgroup_mems is None


PREFIX = "memory-policy.numamem.io"


def annotated(annotations: Mapping[str, str], handler: str = "") -> api.CreateContainerRequest:
    request = api.CreateContainerRequest(pod=pod(), container=container())
    request.pod.runtime_handler = handler
    for key, value in annotations.items():
        request.pod.annotations[key] = value
    return request


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({PREFIX: "bind"}, "bind"),
        ({f"{PREFIX}/container.main": "local"}, "local"),
        ({PREFIX: "bind", f"{PREFIX}/container.main": "local"}, "local"),
        ({PREFIX: "bind", f"{PREFIX}/container.main": ""}, "bind"),
        ({PREFIX: "bind", f"{PREFIX}/container.other": "local"}, "bind"),
        ({PREFIX: "x" * 100_000}, "x" * 64),
    ],
)
@pytest.mark.parametrize("sets_policies", [False, True])
def test_the_annotation_of_the_container_precedes_that_of_the_pod(
    annotations: Mapping[str, str],
    expected: str,
    *,
    sets_policies: bool,
) -> None:
    decoder = Decoder(Facts(sets_policies=sets_policies))
    event = decoder.create_container(annotated(annotations, "kata"))
    assert event.policy_request == PolicyRequest(expected, "kata")


@pytest.mark.parametrize("sets_policies", [False, True])
def test_other_annotations_are_not_in_the_event(*, sets_policies: bool) -> None:
    decoder = Decoder(Facts(sets_policies=sets_policies))
    request = annotated({f"{PREFIX}/container.other": "local", "a/b": "bind"}, "kata")
    assert decoder.create_container(request).policy_request is None


def test_with_policies_each_creation_shows_what_the_runtime_supports() -> None:
    old = PolicySupport("it is old")
    found = {"": PolicySupport(), "old": old}
    decoder = Decoder(Facts(sets_policies=True, policy_support=found.get))
    event = decoder.create_container(annotated({}))
    assert event.policy_request == PolicyRequest()
    decoder.forget_sandboxes()
    event = decoder.create_container(annotated({PREFIX: "bind"}, "old"))
    assert event.policy_request == PolicyRequest("bind", "old", old)


def test_every_event_of_a_pod_has_the_annotations_of_the_domain() -> None:
    decoder = Decoder()
    request = annotated({PREFIX: "bind", "example.com/x": "y"})
    update = api.UpdateContainerRequest(pod=request.pod, container=request.container)
    pods = [
        decoder.sandbox(request.pod),
        decoder.run_pod_sandbox(request).pod,
        decoder.create_container(request).pod,
        decoder.update_container(update).pod,
        decoder.stop_container(request).pod,
        decoder.stop_pod_sandbox(request).pod,
    ]
    assert [pod.annotations for pod in pods] == [{PREFIX: "bind"}] * len(pods)


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
    container = events.Container("c", "s", "main", memory_limit_bytes=reported)
    assert _with_present_limit(container, cgroup).memory_limit_bytes == expected
