"""Scenarios of partitions: two of them and the rest, with a pod of each QoS class in each.

`serving` is closed: `exclusive: all` keeps pods of every class out. `batch` lets others in. Node 4
has memory and no CPUs, so that no container is pinned to it.
"""

from tests.features.guest import memory
from tests.features.guest.feature import Phase, restart_with
from tests.features.guest.memory import MIB
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec

SETTINGS = """\
partitions:
- {name: serving, nodes: 2-3, selector: {tier: serving}, exclusive: all, confine: true}
- {name: batch, nodes: 1, namespaces: [batch-*]}
"""
_LABELS = {"tier": "serving"}
_SMALL, _LARGE = 200 * MIB, 1229 * MIB  # fits one node; fits two
_WRITTEN_MIB = 64
_INSIDE, _OUTSIDE = frozenset({2, 3}), frozenset({0, 1, 4})


def _spec(name: str, qos: str = "guaranteed", **more: object) -> PodSpec:
    size_bytes = 0 if qos == "besteffort" else _SMALL
    cpu_milli = 0 if qos == "besteffort" else 500
    main = ContainerSpec("main", size_bytes, cpu_milli, command=memory.writer(_WRITTEN_MIB))
    return PodSpec(name, (main,), qos, **more)  # type: ignore[arg-type]


def _written_on(pod: Pod) -> frozenset[int]:
    """Return the nodes on which a container has more memory than its start touches anywhere."""
    written = memory.wait_for_written(pod, _WRITTEN_MIB)
    return frozenset(node for node, mib in written.items() if mib >= 2)


def _pinned_pods_are_in_their_partitions(host: Host) -> str:
    serving = host.kubelet.run(_spec("llm", labels=_LABELS))
    batch = host.kubelet.run(_spec("job", namespace="batch-a"))
    rest = host.kubelet.run(_spec("web"))
    found = {pod.spec.name: host.nodes(pod) for pod in (serving, batch, rest)}
    expect(len(found["llm"]) == 1 and found["llm"] < _INSIDE, f"{found}")
    expect(found["job"] == {1}, f"{found}")
    expect(found["web"] in ({0}, {1}), f"{found}")
    for pod in (serving, batch, rest):
        written = _written_on(pod)
        expect(written == found[pod.spec.name], f"{pod.spec.name} wrote on {sorted(written)}")
    return f"{ {name: sorted(nodes) for name, nodes in found.items()} }"


def _other_pods_are_confined(host: Host) -> str:
    found = []
    for qos in ("burstable", "besteffort"):
        for name, labels, allowed in (("in", _LABELS, _INSIDE), ("out", {}, _OUTSIDE)):
            pod = host.kubelet.run(_spec(f"{qos}-{name}", qos, labels=labels))
            mems = cgroups.nodes(pod.parent, pod.container_ids["main"])
            expect(mems == allowed, f"{pod.spec.name} has {sorted(mems)}")
            written = _written_on(pod)
            expect(written <= allowed, f"{pod.spec.name} wrote on {sorted(written)}")
            found.append(f"{pod.spec.name} {sorted(mems)}")
    # The record comes after the reply.
    document = host.plugin.accounting()["entries"]
    confined = host.plugin.records("confined")
    expect(len(confined) == len(found), f"{confined}")
    expect(len(document) == 3, f"more than the pinned pods is charged: {document}")
    return ", ".join(found)


def _pods_of_the_system_are_not_confined(host: Host) -> str:
    pod = host.kubelet.run(_spec("dns", "burstable", namespace="kube-system"))
    mems = cgroups.nodes(pod.parent, pod.container_ids["main"])
    expect(not mems, f"it has {sorted(mems)}")
    return f"no cpuset.mems, memory on {sorted(_written_on(pod))}"


def _refusal_names_the_partition(host: Host) -> str:
    spec = PodSpec("large", (ContainerSpec("main", _LARGE),), labels=_LABELS)
    text = _refusal(host, host.kubelet.run_sandbox(spec))
    expect("partition serving has nodes 2-3; memory " in text, text)
    expect("free on other NUMA nodes" in text, text)
    host.kubelet.remove(host.kubelet.pod("llm"))
    host.kubelet.run_container(host.kubelet.pod("large"), "main")
    nodes = host.nodes(host.kubelet.pod("large"))
    expect(nodes == _INSIDE, f"it is on {sorted(nodes)}")
    return text


def _refusal(host: Host, pod: Pod) -> str:
    try:
        host.kubelet.run_container(pod, "main")
    except CriError as error:
        return str(error)
    raise AssertionError(f"it runs on {sorted(host.nodes(pod))}")


def _restarts_and_other_settings_move_nothing(host: Host) -> str:
    before, entries = host.running(), host.plugin.accounting()["entries"]
    with host.without_plugin():
        pass
    host.restart_runtime(killed=True)
    expect(host.plugin.accounting()["entries"] == entries, "restarts change the accounting")
    restart_with(host, "partitions:\n- {name: other, nodes: 0, namespaces: [x], exclusive: all}\n")
    expect(host.plugin.accounting()["entries"] == entries, "a setting changes the accounting")
    restart_with(host, "")
    expect(host.plugin.accounting()["entries"] == entries, "the setting is off")
    restart_with(host, SETTINGS)
    expect(host.running() == before, f"{host.running()}, not {before}")
    return f"{len(before)} containers"


def _missing_nodes_concern_one_partition(host: Host) -> str:
    host.remove_all()
    restart_with(host, SETTINGS.replace("nodes: 2-3", 'nodes: "2,7"'))
    (found,) = (each["cause"] for each in host.plugin.records("partition_unusable")[-1:])
    web = host.nodes(host.kubelet.run(_spec("web")))
    expect(web == {0}, f"a pod of no partition is on {sorted(web)}")
    text = _refusal(host, host.kubelet.run_sandbox(_spec("llm", labels=_LABELS)))
    expect("partition serving is unusable" in text, text)
    doctor = host.plugin.command("doctor")
    expect("partition serving is unusable" in doctor.stdout, doctor.stdout)
    expect(doctor.returncode == 2, f"doctor ends with status {doctor.returncode}")
    restart_with(host, SETTINGS)
    return str(found)


_CHECKS = (
    Check("pinned_pods_are_in_their_partitions", _pinned_pods_are_in_their_partitions),
    Check("other_pods_are_confined", _other_pods_are_confined),
    Check("pods_of_the_system_are_not_confined", _pods_of_the_system_are_not_confined),
    Check("restarts_and_other_settings_move_nothing", _restarts_and_other_settings_move_nothing),
    Check("refusal_names_the_partition", _refusal_names_the_partition),
    Check("missing_nodes_concern_one_partition", _missing_nodes_concern_one_partition),
)

PHASES = (Phase(name="partitions", scenarios=(_CHECKS,), settings=SETTINGS),)
