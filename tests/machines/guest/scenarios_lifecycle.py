"""Checks of the connection to the runtime: restarts, the end of the plugin, and log lines.

OPENING runs before all other checks of a phase, and CLOSING after them. RESTART belongs in a
scenario with pods.
"""

from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host


def _plugin_is_connected(host: Host) -> str:
    host.runtime.wait_for_plugin(launched=host.plugin.launched)
    pids = host.plugin.pids()
    expect(len(pids) == 1, f"there are {len(pids)} plugin processes: {pids}")
    accounting = host.plugin.accounting()
    expect(not accounting["entries"], f"the initial state has {accounting['entries']}")
    nodes = sorted(accounting["machineState"])
    expect(nodes == ["0", "1", "2", "3"], f"machineState has the nodes {nodes}")
    tables = accounting["machineState"]
    mib = {node: tables[node]["memoryMap"]["memory"]["allocatable"] >> 20 for node in nodes}
    return f"pid {pids[0]}, allocatable MiB by node: {mib}"


def _runtime_restart_keeps_the_accounting(host: Host) -> str:
    """Restart the runtime while the pods of earlier checks run."""
    before, state_before = host.running(), host.plugin.accounting()
    host.restart_runtime(killed=False)
    after, state_after = host.running(), host.plugin.accounting()
    expect(before, "no container was running")
    expect(before == after, f"the containers changed from {before} to {after}")
    expect(state_before == state_after, f"the state changed from {state_before} to {state_after}")
    return f"{len(after)} containers"


def _accounting_is_empty(host: Host) -> str:
    host.plugin.wait_for_empty_accounting()
    tables = host.plugin.accounting()["machineState"]
    for node, state in tables.items():
        expect(state["numberOfAssignments"] == 0, f"node {node} has assignments: {state}")
        for resource, table in state["memoryMap"].items():
            is_free = table["reserved"] == 0 and table["free"] == table["allocatable"]
            expect(is_free, f"node {node}, {resource}: {table}")
    free = {node: state["memoryMap"]["memory"]["free"] for node, state in tables.items()}
    return f"free: {free}"


def _plugin_was_never_lost(host: Host) -> str:
    faults = host.runtime.faults()
    lines = ("the runtime's log has", *faults, "of these lines:", host.runtime.plugin_lines())
    expect(not faults, "\n".join(lines))
    return "no fault in the runtime's log"


def _plugin_ends(host: Host) -> str:
    """End an external plugin by SIGTERM, and a launched plugin by the runtime's end."""
    if host.plugin.launched:
        host.runtime.stop()
        host.plugin.wait_for_end()
        return "with its runtime"
    host.plugin.terminate()
    status = host.plugin.wait_for_end()
    expect(status == 0, f"after SIGTERM its status is {status}")
    return "by SIGTERM, with status 0"


OPENING = (Check("plugin_is_connected", _plugin_is_connected),)
RESTART = Check(
    "runtime_restart_keeps_the_accounting", _runtime_restart_keeps_the_accounting, ("external",)
)
CLOSING = (
    Check("accounting_is_empty", _accounting_is_empty),
    Check("plugin_was_never_lost", _plugin_was_never_lost),
    Check("plugin_ends", _plugin_ends),
)
