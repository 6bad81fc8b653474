"""Checks of the connection to the runtime, before and after all other checks of a phase."""

from tests.cluster.guest.host import Host
from tests.machines.guest.checks import Check, expect


def _plugin_is_connected(host: Host) -> str:
    pid = host.plugin.wait_for_one()
    accounting = host.plugin.accounting()
    expect(not accounting["entries"], f"the initial state has {accounting['entries']}")
    nodes = sorted(accounting["machineState"])
    expect(nodes == ["0", "1", "2", "3"], f"machineState has the nodes {nodes}")
    return f"pid {pid}"


def _accounting_is_empty(host: Host) -> str:
    host.plugin.wait_for_empty_accounting()
    tables = host.plugin.accounting()["machineState"]
    for node, state in tables.items():
        expect(state["numberOfAssignments"] == 0, f"node {node} has assignments: {state}")
        for resource, table in state["memoryMap"].items():
            is_free = table["reserved"] == 0 and table["free"] == table["allocatable"]
            expect(is_free, f"node {node}, {resource}: {table}")
    return str({node: state["memoryMap"]["memory"]["free"] for node, state in tables.items()})


def _plugin_was_never_lost(host: Host) -> str:
    faults = host.runtime.faults()
    lines = ("containerd's log has", *faults, "of these lines:", host.runtime.plugin_lines())
    expect(not faults, "\n".join(lines))
    return "no fault in containerd's log"


OPENING = (Check("plugin_is_connected", _plugin_is_connected),)
CLOSING = (
    Check("accounting_is_empty", _accounting_is_empty),
    Check("plugin_was_never_lost", _plugin_was_never_lost),
)
