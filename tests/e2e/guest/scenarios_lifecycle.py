"""Checks of the plugin's life with its runtime: restarts, the end of everything, a quiet log.

OPENING is what has to hold before all other checks of a phase, CLOSING what has to hold after them;
RESTART belongs into a scenario that has pods.
"""

from tests.e2e.guest.checks import Check, Host, expect


def _plugin_is_connected(host: Host) -> str:
    host.containerd.wait_for_plugin(launched=host.plugin.launched)
    pids = host.plugin.pids()
    expect(len(pids) == 1, f"there are {len(pids)} plugin processes: {pids}")
    books = host.plugin.books()
    expect(not books["entries"], f"the books begin with {books['entries']}")
    nodes = sorted(books["machineState"])
    expect(nodes == ["0", "1", "2", "3"], f"machineState has the nodes {nodes}")
    return f"pid {pids[0]}"


def _runtime_restart_keeps_the_books(host: Host) -> str:
    """Restart containerd under the pods that the checks before have left."""
    before, books_before = host.running(), host.plugin.books()
    host.restart_runtime(killed=False)
    after, books_after = host.running(), host.plugin.books()
    expect(before, "no container was running")
    expect(before == after, f"the containers changed from {before} to {after}")
    expect(books_before == books_after, f"the books changed from {books_before} to {books_after}")
    return f"{len(after)} containers"


def _books_are_empty(host: Host) -> str:
    host.plugin.wait_for_empty_books()
    tables = host.plugin.books()["machineState"]
    for node, state in tables.items():
        expect(state["numberOfAssignments"] == 0, f"node {node} has assignments: {state}")
        for resource, table in state["memoryMap"].items():
            is_free = table["reserved"] == 0 and table["free"] == table["allocatable"]
            expect(is_free, f"node {node}, {resource}: {table}")
    free = {node: state["memoryMap"]["memory"]["free"] for node, state in tables.items()}
    return f"free: {free}"


def _plugin_was_never_lost(host: Host) -> str:
    faults = host.containerd.faults()
    story = "\n".join(("containerd's log has", *faults, "all of it:", host.containerd.story()))
    expect(not faults, story)
    return "no line about it in containerd's log"


def _plugin_ends(host: Host) -> str:
    """End it the way it ends in real life: by a signal, or because the runtime ended."""
    if host.plugin.launched:
        host.containerd.stop()
        host.plugin.wait_for_end()
        return "with its runtime"
    host.plugin.terminate()
    status = host.plugin.wait_for_end()
    expect(status == 0, f"after SIGTERM its status is {status}")
    return "by SIGTERM, with status 0"


OPENING = (Check("plugin_is_connected", _plugin_is_connected),)
RESTART = Check("runtime_restart_keeps_the_books", _runtime_restart_keeps_the_books, ("external",))
CLOSING = (
    Check("books_are_empty", _books_are_empty),
    Check("plugin_was_never_lost", _plugin_was_never_lost),
    Check("plugin_ends", _plugin_ends),
)
