"""A phase of a feature: settings of the plugin, scenarios, and what else they need.

The plugin is the service of the Debian package, under containerd and runc of the newest versions.
"""

from dataclasses import dataclass

from tests.machines.guest import checks, plugin
from tests.machines.guest.host import Host


@dataclass(frozen=True, slots=True)
class Phase(checks.Phase[Host]):
    """A feature's phase.

    `settings` are further ones of the plugin. `runs_programs`: the plugin runs other programs; a
    system call outside of the unit's filter then fails, as in the shipped unit, and does not end
    it. `runtime_tables` are tables of containerd's configuration in TOML. `devices` are further
    arguments of QEMU; each phase of the run sees them.
    """

    settings: str = ""
    runs_programs: bool = False
    runtime_tables: str = ""
    devices: tuple[str, ...] = ()


def restart_with(host: Host, settings: str) -> None:
    """Restart the plugin with these settings instead of the phase's."""
    with host.without_plugin():
        text = plugin.RESERVATION + plugin.LOG_TO_FILE + settings
        plugin.CONFIG.write_text(text, encoding="ascii")
