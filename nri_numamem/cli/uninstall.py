"""``nri-numamem uninstall``: takes away what `install` put on the host.

The object that `export` wrote for the scheduler is deleted. Removing the plugin does not release
the containers that it pinned, so `reset` follows. It needs an ended plugin: one that the runtime
launched ends with the runtime's restart, and a second run then does the rest. Configuration, state
and logs stay, unless --purge is given. State and history also stay while containers may be pinned
by the plugin, because nothing else shows which ones.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from nri_numamem.cli import reset
from nri_numamem.cli.export.delete import delete_configured
from nri_numamem.cli.host_arguments import (
    add_root_arguments,
    add_state_file_argument,
    state_file_of,
)
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import systemd
from nri_numamem.cli.installation.facts import (
    Facts,
    add_installation_arguments,
    chosen_runtime,
    read_facts,
    running_instance,
)
from nri_numamem.cli.installation.plan import plan_uninstall
from nri_numamem.cli.installation.purge import plan_purge, purge
from nri_numamem.cli.installation.steps import Step, perform, print_nothing, print_remaining
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.host.pod_cgroups import has_pod_cgroups
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.files import beside, lock_file_of
from nri_numamem.observe.history.lines import NAMES

EXAMPLES = (
    "nri-numamem uninstall --dry-run",
    "nri-numamem uninstall",
    "nri-numamem uninstall --purge",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--no-reset",
        action="store_true",
        help="leave running containers pinned until they end; see nri-numamem reset --help",
    )
    parser.add_argument(
        "--adopted",
        action="store_true",
        help="also release containers of which it is unknown whether the plugin set their nodes; "
        "see nri-numamem reset --help",
    )
    parser.add_argument(
        "--purge", action="store_true", help="also remove configuration, state and logs"
    )
    parser.add_argument(
        "--socket",
        type=Path,
        default=DEFAULT_SOCKET,
        help="the runtime's NRI socket, for the reset (default: %(default)s)",
    )
    add_installation_arguments(parser)
    add_state_file_argument(parser)
    add_root_arguments(parser, "cgroup")
    parser.set_defaults(output="table")
    parser.epilog = (
        "A second run does what remained, or changes nothing. The program itself stays, and so do "
        "files that the configuration puts into other directories, which --purge names. Exit "
        "status: 0 if everything was removed that should be, 1 if steps remain, 2 if nothing was "
        "changed."
    )


def main(args: argparse.Namespace) -> int:
    """Uninstall the plugin; return 1 if something remains to be done."""
    host = Host(args.root)
    facts = read_facts(host, chosen_runtime(args.runtime, host))
    is_exporter_active = systemd.is_active(host, systemd.EXPORTER)
    steps = plan_uninstall(facts, is_exporter_active=is_exporter_active)
    planned = plan_purge(facts, steps, host) if args.purge else None
    perform(steps, host, is_dry_run=args.dry_run)
    deleted = delete_configured(is_dry_run=args.dry_run) if host.is_this_host else ""
    if deleted:
        print(deleted)
    release = _release(args, facts, steps, host) if host.is_this_host else _on_host(args, host)
    remaining = [*release]
    is_changed = bool(steps or deleted)
    if planned is not None and not remaining:
        is_changed = is_changed or bool(planned.own or planned.shared)
        remaining = purge(planned, host, is_dry_run=args.dry_run)
    if not is_changed:
        print_nothing(is_dry_run=args.dry_run)
    remaining += _other_programs(facts)
    print_remaining(remaining)
    return 1 if remaining else 0


def _release(
    args: argparse.Namespace, facts: Facts, steps: Sequence[Step], host: Host
) -> Iterator[str]:
    """Release the pinned containers of an ended plugin; yield what remains to be done."""
    command = "nri-numamem uninstall" + " --purge" * args.purge + " --adopted" * args.adopted
    then = ", then removes configuration, state and logs" if args.purge else ""
    again = f"{command}    (releases the pinned containers{then})"
    holder = running_instance(host, args.state_file)
    if holder is not None and args.dry_run:
        print(f"would release the pinned containers when the plugin has ended: {holder}")
        return
    if holder is not None:
        yield f"systemctl restart {facts.runtime.service}    (ends the plugin: {holder})"
        yield again
        return
    try:
        if args.no_reset or not (args.adopted or _has_run(args, facts, steps)):
            return
        outcomes = reset.reset(args)
    except UsageError as error:
        yield str(error)
        yield again
        return
    if outcomes.intersection(reset.FAILED):
        yield again
    if reset.UNPROVEN in outcomes:
        yield f"{command} --adopted    (releases them whoever pinned them{then})"
        yield f"or {command} --no-reset    (leaves them pinned{then})"


def _on_host(args: argparse.Namespace, host: Host) -> Iterator[str]:
    """Yield what remains if the root directory is that of a host whose pods run; see --root."""
    try:
        if not args.no_reset and has_pod_cgroups(host.path("/sys/fs/cgroup")):
            yield "nri-numamem uninstall    (on the host itself: releases the pinned containers)"
    except MachineError as error:
        yield str(error)


def _has_run(args: argparse.Namespace, facts: Facts, steps: Sequence[Step]) -> bool:
    """Return whether there is a trace of the plugin, beyond the configuration of a package."""
    state_file = Path(state_file_of(args.state_file))
    files = (state_file, lock_file_of(state_file), *(beside(state_file, name) for name in NAMES))
    others = [path for path in facts.configs if path != str(DEFAULT_CONFIG)]
    return bool(steps or others) or any(file.exists() for file in files)


def _other_programs(facts: Facts) -> Iterator[str]:
    """Yield executables in the plugin directory that are not the plugin's."""
    for path in facts.bad_names:
        yield f"rename or move {path}    (the runtime does not start with a name without NN-)"
    for path in facts.other_programs:
        yield f"move {path} away    (it has the plugin's name, and is another program)"
