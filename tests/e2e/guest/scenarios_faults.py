"""Scenario of faults: runtime and plugin are killed under running pods, and containers resized.

Four pods are enough for all of it. Before the faults: one that is between its init container and
its main one, and so holds node 0 though nothing runs in it ("steps"), one with hugepages that fills
node 1 ("full"), and a Burstable one ("loose"). After the first fault comes a pod of two containers
("newcomer"), of which the second is created while the plugin is away.

The machine: four NUMA nodes of about 1 GiB with 64 MiB reserved on each; 0-1 and 2-3 are near.
"""

from typing import Any

from tests.e2e.guest import cgroups
from tests.e2e.guest.checks import Check, Host, expect
from tests.e2e.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.e2e.guest.scenarios_placement import LARGE, MEDIUM, MIB, SMALL
from tests.e2e.guest.waiting import wait_until

_GROWN = 400 * MIB  # more than SMALL, and fits its node still

_POOL_NODE = 3

_FULL = PodSpec("full", (ContainerSpec("main", MEDIUM, hugepages_bytes={"2MB": 4 * MIB}),))
_STEPS = PodSpec(
    "steps",
    (
        ContainerSpec("init", MEDIUM, command=("/bin/busybox", "true")),
        ContainerSpec("main", MEDIUM),
    ),
)
_LOOSE = PodSpec("loose", (ContainerSpec("main", SMALL, cpu_milli=500),), "burstable")
_NEWCOMER = PodSpec("newcomer", (ContainerSpec("main", MEDIUM), ContainerSpec("late", SMALL)))


def _pods_are_placed(host: Host) -> str:
    host.plugin.wait_for_empty_books()
    steps = host.kubelet.run_sandbox(_STEPS)
    host.kubelet.run_container(steps, "init")
    host.kubelet.wait_for_exit(steps, "init")
    full = _nodes(host.kubelet.run(_FULL))
    loose = _nodes(host.kubelet.run(_LOOSE))
    expect(not loose, f"the Burstable container got cpuset.mems {sorted(loose)}")
    held = _held(host, "steps", "init")
    expect(held == {0} and full == {1}, f"steps has {sorted(held)}, full is on {sorted(full)}")
    expect(host.plugin.records("container ended")[-1]["pod"] == "steps", "init has not ended")
    return "steps holds 0, full is on 1"


def _killed_runtime_changes_nothing(host: Host) -> str:
    running, books, pid = host.running(), host.plugin.books(), host.plugin.wait_for_one()
    host.restart_runtime(killed=True)
    successor = host.plugin.wait_for_one(but=pid if host.plugin.launched else 0)
    expect(host.plugin.launched or successor == pid, f"process {successor} is not {pid}")
    _expect_same(host, running, books)
    return f"plugin {pid}, then {successor}; {sorted(running)}"


def _newcomer_respects_what_runs(host: Host) -> str:
    newcomer = host.kubelet.run_sandbox(_NEWCOMER)
    host.kubelet.run_container(newcomer, "main")
    nodes = _nodes(newcomer)
    expect(nodes == {2}, f"it is on {sorted(nodes)}: 0 is kept for a pod, 1 is full, 2 the first")
    return f"node {sorted(nodes)}"


def _unheard_end_frees_memory(host: Host) -> str:
    """End a pod that is older than the runtime: containerd tells no plugin that it ended."""
    full = host.kubelet.pod("full")
    before = _memory(host.plugin.books(), 1)
    host.kubelet.remove(full)

    def books_without_it() -> dict[str, Any] | None:
        books = host.plugin.books()
        return None if full.uid in books["entries"] else books

    text = "release of a pod that ended unheard"
    after = _memory(wait_until(books_without_it, text, timeout_s=60.0), 1)
    freed = after["free"] - before["free"]
    expect(freed == MEDIUM and after["reserved"] == 0, f"node 1: {before}, then {after}")
    return f"node 1: {freed} bytes"


def _killed_plugin_changes_nothing(host: Host) -> str:
    """Kill the plugin, and create a container before it is back."""
    running, books, pid = host.running(), host.plugin.books(), host.plugin.wait_for_one()
    newcomer = host.kubelet.pod("newcomer")
    with host.containerd.losing_the_plugin():
        host.plugin.crash()
        host.kubelet.run_container(newcomer, "late")
        nodes = _nodes(newcomer, "late")
        expect(not nodes, f"without a plugin cpuset.mems is {sorted(nodes)}")
        host.plugin.revive()
        host.containerd.wait_for_plugin(launched=False)
    successor = host.plugin.wait_for_one(but=pid)
    _expect_same(host, running, books, but=(newcomer.uid, "late"))
    return f"plugin {pid}, then {successor}; {sorted(running)}"


def _missed_container_is_pinned(host: Host) -> str:
    newcomer = host.kubelet.pod("newcomer")
    nodes = wait_until(lambda: _nodes(newcomer, "late"), "cpuset.mems of the container")
    held = _held(host, "newcomer", "late")
    expect(nodes == held == {1}, f"it is on {sorted(nodes)}, by the books on {sorted(held)}")
    return f"node {sorted(nodes)}"


def _kept_reservation_is_used(host: Host) -> str:
    """Start the container after the init container; without what was kept it would not fit."""
    steps = host.kubelet.pod("steps")
    before = _memory(host.plugin.books(), 0)
    host.kubelet.run_container(steps, "main")
    nodes = _nodes(steps)
    after = _memory(host.plugin.books(), 0)
    expect(nodes == {0}, f"it is on {sorted(nodes)}, not where its init container was")
    expect(before == after, f"it took more than what was kept: {before}, then {after}")
    return f"node {sorted(nodes)}"


def _resize_grows_in_place(host: Host) -> str:
    before, after = _resize(host, _GROWN)
    expect(before == after, f"from {sorted(before)} to {sorted(after)}, though it fits")
    return f"node {sorted(after)}"


def _resize_beyond_adds_a_node(host: Host) -> str:
    before, after = _resize(host, LARGE)
    expect(before < after and len(after) == 2, f"from {sorted(before)} to {sorted(after)}")
    foreign = _held(host, "steps", "main") | _held(host, "newcomer", "main")
    expect(not after & foreign, f"{sorted(after)} are shared with others: {sorted(foreign)}")
    return f"from {sorted(before)} to {sorted(after)}"


def _resize_gives_back(host: Host) -> str:
    before, after = _resize(host, SMALL)
    expect(before == after, f"from {sorted(before)} to {sorted(after)}: its pages are there")
    return f"nodes {sorted(after)}"


def _changed_pool_is_noticed(host: Host) -> str:
    """Add hugepages to a node while pods run; the plugin looks from time to time."""
    before = host.plugin.books()
    pages = cgroups.hugepage_count(_POOL_NODE)
    cgroups.set_hugepage_count(_POOL_NODE, pages + 4)
    try:
        wait_until(
            lambda: _pool(host.plugin.books())["total"] == _pool(before)["total"] + 8 * MIB,
            "another number of hugepages in the books",
            timeout_s=60.0,
        )
        after = host.plugin.books()
    finally:
        cgroups.set_hugepage_count(_POOL_NODE, pages)
    expect(after["entries"] == before["entries"], f"from {before} to {after}")
    return f"node {_POOL_NODE}: {_pool(after)}"


def _pool(books: dict[str, Any]) -> dict[str, int]:
    return dict(books["machineState"][str(_POOL_NODE)]["memoryMap"]["hugepages-2Mi"])


def _resize(host: Host, memory_bytes: int) -> tuple[frozenset[int], frozenset[int]]:
    """Resize the newcomer's second container; return its nodes before and after.

    Its limit, the books' entry and the sum of their tables have to follow.
    """
    pod = host.kubelet.pod("newcomer")
    before, books = _nodes(pod, "late"), host.plugin.books()
    reserved = _reserved(books) - _block(books, pod.uid, "late")["size"]
    host.kubelet.resize_memory(pod, "late", memory_bytes)
    held = _held(host, "newcomer", "late")
    text = f"cpuset.mems {sorted(held)}, as the books say"
    wait_until(lambda: _nodes(pod, "late") == held, text)
    books = host.plugin.books()
    block = _block(books, pod.uid, "late")
    limit = cgroups.read(pod.parent, pod.container_ids["late"], "memory.max")
    expect(limit == str(memory_bytes), f"memory.max is {limit}: the resize was not applied")
    expect(block["size"] == memory_bytes, f"the books say {block}")
    expect(_reserved(books) == reserved + memory_bytes, f"the tables do not follow: {books}")
    return before, _nodes(pod, "late")


def _expect_same(
    host: Host, running: dict[str, Any], books: dict[str, Any], but: tuple[str, str] | None = None
) -> None:
    """Wait until the books are as before, `but` for a container that came meanwhile.

    A plugin that was started anew has none before it has heard of all that runs.
    """

    def is_same() -> bool:
        return _without(host.plugin.books(), but) == books

    try:
        wait_until(is_same, "books as before")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {books}, then {host.plugin.books()}") from error
    after = host.running()
    changed = {
        name: (was, after.get(name)) for name, was in running.items() if after.get(name) != was
    }
    expect(running and not changed, f"containers before and after: {changed}")


def _without(books: dict[str, Any], container: tuple[str, str] | None) -> dict[str, Any]:
    """Take the memory of a container on one node off a copy of the books."""
    if container is None:
        return books
    uid, name = container
    entries = {each: dict(containers) for each, containers in books["entries"].items()}
    for block in entries.get(uid, {}).pop(name, ()):
        (node,) = block["numaAffinity"]
        state = books["machineState"][str(node)]
        state["numberOfAssignments"] -= 1
        state["memoryMap"][block["type"]]["reserved"] -= block["size"]
        state["memoryMap"][block["type"]]["free"] += block["size"]
    return {**books, "entries": entries}


def _nodes(pod: Pod, container: str = "main") -> frozenset[int]:
    """Read `cpuset.mems`; not by the host, as these are not compared: each is told exactly."""
    return cgroups.nodes(pod.parent, pod.container_ids[container])


def _held(host: Host, pod: str, container: str) -> frozenset[int]:
    """Ask the books on which nodes a container has its memory."""
    books = host.plugin.books()
    return frozenset(_block(books, host.kubelet.pod(pod).uid, container)["numaAffinity"])


def _block(books: dict[str, Any], uid: str, container: str) -> dict[str, Any]:
    blocks = books["entries"].get(uid, {}).get(container, ())
    found = [block for block in blocks if block["type"] == "memory"]
    expect(len(found) == 1, f"the books have {blocks} for {container}")
    return dict(found[0])


def _memory(books: dict[str, Any], node: int) -> dict[str, int]:
    return dict(books["machineState"][str(node)]["memoryMap"]["memory"])


def _reserved(books: dict[str, Any]) -> int:
    """Add up the memory that is reserved on all nodes."""
    return sum(_memory(books, int(node))["reserved"] for node in books["machineState"])


FAULTS = (
    Check("pods_are_placed", _pods_are_placed),
    Check("killed_runtime_changes_nothing", _killed_runtime_changes_nothing),
    Check("newcomer_respects_what_runs", _newcomer_respects_what_runs),
    Check("unheard_end_frees_memory", _unheard_end_frees_memory),
    Check("killed_plugin_changes_nothing", _killed_plugin_changes_nothing),
    Check("missed_container_is_pinned", _missed_container_is_pinned),
    Check("kept_reservation_is_used", _kept_reservation_is_used),
    Check("resize_grows_in_place", _resize_grows_in_place),
    Check("resize_beyond_adds_a_node", _resize_beyond_adds_a_node),
    Check("resize_gives_back", _resize_gives_back),
    Check("changed_pool_is_noticed", _changed_pool_is_noticed, ("external",)),
)
