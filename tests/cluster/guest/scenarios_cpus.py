"""Checks with the kubelet's CPU Manager (policy static): memory follows exclusive CPUs.

Node n of the machine has CPU n. CPU 0 is reserved, so the kubelet assigns 1 to 3.
"""

from tests.cluster.guest.host import Host
from tests.cluster.guest.manifests import container, pod, resources
from tests.cluster.guest.scenarios_placement import one_node
from tests.cluster.guest.scenarios_restarts import crash
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect

SETTINGS = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def _cpus(host: Host, name: str) -> frozenset[int]:
    return cgroups.parse_nodes(host.read(name, "main", "cpuset.cpus"))


def _memory_follows_exclusive_cpus(host: Host) -> str:
    found = {}
    for name in ("cpu-a", "cpu-b"):
        host.run(pod(name, [container("main", resources(200, cpu="1"))]))
        found[name] = _cpus(host, name)
        expect(len(found[name]) == 1, f"{name} has the CPUs {sorted(found[name])}")
        nodes = host.nodes(name)
        expect(nodes == found[name], f"{name}: CPU {sorted(found[name])}, memory {sorted(nodes)}")
    expect(found["cpu-a"] != found["cpu-b"], f"{found}")
    return str({name: sorted(cpus) for name, cpus in found.items()})


def _shared_cpus_do_not_decide(host: Host) -> str:
    """Run a container on the shared CPUs; the emptiest preferred node is the first one."""
    host.run(pod("shared-cpus", [container("main", resources(200, cpu="200m"))]))
    cpus = _cpus(host, "shared-cpus")
    expect(len(cpus) > 1, f"its CPUs are {sorted(cpus)}")
    return f"CPUs {sorted(cpus)}, node {sorted(one_node(host, 'shared-cpus'))}"


def _crashed_container_returns_to_its_cpu_and_node(host: Host) -> str:
    before = _cpus(host, "cpu-b"), host.nodes("cpu-b")
    crash(host, "cpu-b")
    after = _cpus(host, "cpu-b"), host.nodes("cpu-b")
    expect(before == after, f"from {before} to {after}")
    return f"CPU {sorted(after[0])}, node {sorted(after[1])}"


def _restart_of_the_kubelet_changes_nothing(host: Host) -> str:
    host.take_snapshot()
    host.restart_kubelet(killed=True)
    return f"{host.expect_snapshot()} containers"


def _several_exclusive_cpus(host: Host) -> str:
    """Run a container with exclusive CPUs of two nodes; its memory is on one of them or on both."""
    for name in ("cpu-a", "shared-cpus"):
        host.remove(name)
    host.run(pod("cpu-pair", [container("main", resources(200, cpu="2"))]))
    cpus, nodes = _cpus(host, "cpu-pair"), host.nodes("cpu-pair")
    expect(len(cpus) == 2, f"its CPUs are {sorted(cpus)}")
    expect(nodes and nodes <= cpus, f"CPUs {sorted(cpus)}, memory {sorted(nodes)}")
    return f"CPUs {sorted(cpus)}, nodes {sorted(nodes)}"


CPUS = (
    Check("memory_follows_exclusive_cpus", _memory_follows_exclusive_cpus),
    Check("shared_cpus_do_not_decide", _shared_cpus_do_not_decide),
    Check(
        "crashed_container_returns_to_its_cpu_and_node",
        _crashed_container_returns_to_its_cpu_and_node,
    ),
    Check("sigkill_of_kubelet_changes_nothing", _restart_of_the_kubelet_changes_nothing),
    Check("memory_of_several_exclusive_cpus", _several_exclusive_cpus),
)
