"""Checks of resizes in place, which the kubelet does for pods of an API server only."""

from tests.cluster.guest.api_pods import ApiPods
from tests.cluster.guest.host import Host, container_id
from tests.cluster.guest.manifests import MIB, WRITE, Manifest, guaranteed, resources
from tests.cluster.guest.scenarios_placement import block, one_node
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

_NEAR_PAIRS = (frozenset({0, 1}), frozenset({2, 3}))
_SMALL_MIB, _GROWN_MIB, _REFUSED_MIB, _LARGE_MIB = 200, 220, 300, 1229
# What the other pod leaves on the node, less than what _REFUSED_MIB needs.
_LEFT_MIB = 40


def _resize(host: Host, memory_mib: int) -> None:
    assert isinstance(host.pods, ApiPods)
    host.pods.resize("grow", "main", resources(memory_mib))


def _wait_for_limit(host: Host, memory_mib: int) -> None:
    """Wait until the kernel enforces the limit, and the kubelet has finished the resize."""

    def is_done() -> bool:
        limit = host.read("grow", "main", "memory.max")
        return limit == str(memory_mib * MIB) and not _conditions(host.pod("grow"))

    wait_until(is_done, f"resize to {memory_mib} MiB")


def _conditions(pod: Manifest) -> list[Manifest]:
    """Return the conditions of a resize that has not ended."""
    conditions = pod["status"].get("conditions", ())
    return [each for each in conditions if each["type"].startswith("PodResize")]


def _container_grows_on_its_node(host: Host) -> str:
    found = host.run(guaranteed("grow", _SMALL_MIB, WRITE))
    before, nodes = container_id(found, "main"), one_node(host, "grow")
    _resize(host, _GROWN_MIB)
    _wait_for_limit(host, _GROWN_MIB)
    expect(container_id(host.pod("grow"), "main") == before, "it is another container")
    expect(one_node(host, "grow") == nodes, f"from {sorted(nodes)}")
    blocks = host.assignments("grow")
    expect(blocks == {"main": [block(nodes, _GROWN_MIB)]}, f"the accounting has {blocks}")
    return f"node {sorted(nodes)}"


def _refusal_is_in_the_conditions(host: Host) -> str:
    """Fill the node with another pod, so that no room is left to grow."""
    (node,) = one_node(host, "grow")
    tables = host.plugin.accounting()["machineState"]
    free_mib = tables[str(node)]["memoryMap"]["memory"]["free"] // MIB
    host.run(guaranteed("neighbour", free_mib - _LEFT_MIB))
    expect(one_node(host, "neighbour") == {node}, "the other pod is on another node")
    _resize(host, _REFUSED_MIB)

    def refused() -> Manifest | None:
        found = [each for each in _conditions(host.pod("grow")) if "message" in each]
        return next((each for each in found if "numamem" in each["message"]), None)

    found = wait_until(refused, "condition with the text of the plugin")
    limit = host.read("grow", "main", "memory.max")
    expect(limit == str(_GROWN_MIB * MIB), f"memory.max is {limit}")
    expect(one_node(host, "grow") == {node}, f"it has left node {node}")
    return f"{found['type']}, {found.get('reason')}: {found['message']}"


def _resize_succeeds_after_room_is_made(host: Host) -> str:
    before = host.nodes("grow")
    host.remove("neighbour")
    _wait_for_limit(host, _REFUSED_MIB)
    after = one_node(host, "grow")
    expect(before == after, f"from {sorted(before)} to {sorted(after)}")
    return f"node {sorted(after)}"


def _container_grows_over_two_nodes(host: Host) -> str:
    """Grow beyond the node: `cpuset.mems` of the running container changes."""
    before, nodes = container_id(host.pod("grow"), "main"), one_node(host, "grow")
    _resize(host, _LARGE_MIB)
    _wait_for_limit(host, _LARGE_MIB)
    after = host.nodes("grow")
    expect(after in _NEAR_PAIRS and nodes < after, f"from {sorted(nodes)} to {sorted(after)}")
    expect(container_id(host.pod("grow"), "main") == before, "it is another container")
    return f"from {sorted(nodes)} to {sorted(after)}"


RESIZE = (
    Check("container_grows_on_its_node", _container_grows_on_its_node),
    Check("refusal_is_in_the_conditions", _refusal_is_in_the_conditions),
    Check("resize_succeeds_after_room_is_made", _resize_succeeds_after_room_is_made),
    Check("container_grows_over_two_nodes", _container_grows_over_two_nodes),
)
