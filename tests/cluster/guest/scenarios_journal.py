"""Checks of the plugin's log in the journal, with the commands of docs/troubleshooting.md."""

from tests.cluster.guest.host import Host
from tests.cluster.guest.manifests import guaranteed
from tests.e2e.guest import scenarios_journal
from tests.machines.guest import systemd
from tests.machines.guest.checks import Check
from tests.machines.guest.plugin import CONFIG, LOG_TO_FILE, RESERVATION
from tests.machines.guest.waiting import wait_until

# More than the plugin can assign on all NUMA nodes, and less than what the kubelet can.
_TOO_LARGE_MIB = 3700


def _documented_commands_find_the_records(host: Host) -> str:
    """Let the plugin log to the journal, as it is installed, and reject a pod."""
    CONFIG.write_text(RESERVATION, encoding="ascii")
    try:
        host.restart_plugin(killed=False)
        host.pods.put(guaranteed("too-large", _TOO_LARGE_MIB))
        wait_until(lambda: systemd.journal("NRI_NUMAMEM_EVENT=rejected"), "record of the rejection")
        found = scenarios_journal.run_commands(host.pod("too-large")["metadata"]["name"])
    finally:
        CONFIG.write_text(RESERVATION + LOG_TO_FILE, encoding="ascii")
        host.restart_plugin(killed=False)
    return f"{found} commands"


JOURNAL = (Check("documented_commands_find_the_records", _documented_commands_find_the_records),)
