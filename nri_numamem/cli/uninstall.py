"""``nri-numamem uninstall``: removes what `install` put on the host, and unpins containers.

It also deletes the object that `export` wrote for the scheduler. Containers stay pinned when the
plugin is removed, so `reset` follows. That requires that the plugin has ended: one that the runtime
launched ends when the runtime restarts, and a second run does the rest. Configuration, state and
logs stay without --purge. State and history also stay while containers may be pinned by the plugin,
because nothing else shows which ones.

A purge cannot be undone, so everything is read before the first deletion, and an error of one
deletion does not stop the others.
"""

import argparse
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nri_numamem.cli import reset
from nri_numamem.cli.export.server import delete_configured
from nri_numamem.cli.host_arguments import state_file_of
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.installation.facts import (
    COPY,
    Facts,
    add_installation_arguments,
    chosen_runtime,
    read_facts,
    running_instance,
)
from nri_numamem.cli.installation.plan import plan_uninstall
from nri_numamem.cli.installation.steps import (
    REMEDIES,
    Remove,
    Step,
    perform,
    print_nothing,
    print_remaining,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG, load_file
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.engine.core.text import escape
from nri_numamem.host.pod_cgroups import has_pod_cgroups
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.claim_files import (
    ClaimFileError,
    directory_of,
    intents_file,
    read_intents,
)
from nri_numamem.observe.files import beside, lock_file_of, reason_of
from nri_numamem.observe.history.lines import NAMES

# What a purge removes with its contents, and the directories that it removes if they are empty.
_OWN = (
    STATE_FILE.rpartition("/")[0],
    "/var/log/nri-numamem",
    systemd.OVERRIDES,
    systemd.EXPORTER_OVERRIDES,
    str(DEFAULT_CONFIG.parent),
)
_COPIES = COPY.rpartition("/")[0]
_SHARED = (
    "/opt/nri/plugins",
    "/opt/nri",
    "/etc/nri/conf.d",
    "/etc/nri",
    _COPIES,
    _COPIES.rpartition("/")[0],
    hook_program.PATH.rpartition("/")[0],
)

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
        "--purge", action="store_true", help="also remove configuration, state and logs"
    )
    add_installation_arguments(parser)
    reset.add_reset_arguments(parser)
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
    _check_claims(args, host)
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


def _check_claims(args: argparse.Namespace, host: Host) -> None:
    """Raise UsageError while resource claims are prepared: their pods could never be removed."""
    try:
        state_file = state_file_of(args.state_file, args.root)
    except UsageError:
        return  # without a state file there are no claims
    directory = directory_of(host.path(str(state_file)))
    try:
        found = read_intents(directory)
    except OSError as error:
        raise UsageError(f"{directory}: {reason_of(error)}; run as root") from error
    except ClaimFileError as error:
        raise UsageError(f"{error}; remove the file if no pod uses a resource claim") from error
    if found.uids:
        known = {intent.claim.uid: str(intent.claim) for intent in found.found}
        names = ", ".join(sorted(known.get(uid, uid) for uid in found.uids))
        raise UsageError(
            f"resource claims are prepared on this host: {names}; delete their pods first, "
            "because the kubelet cannot remove them without the agent; they are in "
            f"{intents_file(directory)}"
        )


def _release(
    args: argparse.Namespace, facts: Facts, steps: Sequence[Step], host: Host
) -> Iterator[str]:
    """Release the pinned containers of an ended plugin; yield what remains to be done."""
    command = "nri-numamem uninstall" + " --purge" * args.purge + " --adopted" * args.adopted
    then = ", then removes configuration, state and logs" if args.purge else ""
    again = f"{command}    (unpins the containers{then})"
    holder = running_instance(host, args.state_file)
    if holder is not None and args.dry_run:
        print(f"would unpin the containers when the plugin has ended: {holder}")
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
        yield f"{command} --adopted    (unpins them whoever pinned them{then})"
        yield f"or {command} --no-reset    (leaves them pinned{then})"


def _on_host(args: argparse.Namespace, host: Host) -> Iterator[str]:
    """Yield what remains if --root names a host whose pods run."""
    try:
        if not args.no_reset and has_pod_cgroups(host.path("/sys/fs/cgroup")):
            yield "nri-numamem uninstall    (on the host itself: unpins the containers)"
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
        yield f"rename or move {path}    (the runtime does not start with a name that lacks NN-)"
    for path in facts.other_programs:
        yield f"move {path} away    (it has the plugin's name but is another program)"


@dataclass(frozen=True, slots=True)
class Purge:
    """What is removed; paths on the host."""

    own: tuple[str, ...]
    """Files, directories with their contents, and links, but not what a link leads to."""
    shared: tuple[str, ...]
    """Directories of several programs in which nothing is left."""
    kept: tuple[str, ...]
    """One line for each file of the plugin that is elsewhere."""


def plan_purge(facts: Facts, steps: Sequence[Step], host: Host) -> Purge:
    """Return what is removed after the steps of an uninstall, which are still to be executed.

    Raises UsageError if something cannot be read or removed.
    """
    own = [path for path in (*facts.configs, *_OWN) if os.path.lexists(host.entry(path))]
    for path in own:
        if not os.access(host.entry(path).parent, os.W_OK):
            remedy = "run as root, on a writable file system; nothing was changed"
            raise UsageError(f"{path}: cannot be removed; {remedy}")
    try:
        names = {path: host.names(path) for path in (*_OWN, *_SHARED)}
    except UnreadableError as error:
        raise UsageError(f"{error}; run as root; nothing was changed") from error
    gone = {*own, *(step.path for step in steps if isinstance(step, Remove))}
    shared = []
    for path in _SHARED:
        place = host.entry(path)
        is_directory = place.is_dir() and not place.is_symlink()
        if is_directory and all(f"{path}/{name}" in gone for name in names[path]):
            shared.append(path)
            gone.add(path)
    return Purge(tuple(own), tuple(shared), tuple(_kept(facts, host)))


def purge(plan: Purge, host: Host, *, is_dry_run: bool) -> list[str]:
    """Remove what is planned and print a line for each; return what remains, for people."""
    remaining = []
    for path in (*plan.own, *plan.shared):
        place = host.entry(path)
        try:
            if is_dry_run:
                pass
            elif path in plan.shared:
                place.rmdir()
            elif place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        except OSError as error:
            remedy = REMEDIES.get(error.errno or 0, error.strerror or str(error))
            remaining.append(f"remove {path}    (not done completely: {remedy})")
        else:
            print(f"{'would remove' if is_dry_run else 'removed'} {path}")
    for line in plan.kept:
        print(f"kept {line}; remove it yourself")
    return remaining


def _kept(facts: Facts, host: Host) -> list[str]:
    """Return a line for each target of a link, and each file that the configuration puts elsewhere.

    A configuration that cannot be used names none.
    """
    lines = [
        f"{escape(str(host.entry(path).readlink()))}, to which {path} was a link"
        for path in _OWN
        if host.entry(path).is_symlink() and host.path(path).exists()
    ]
    named = dict.fromkeys(line for config in facts.configs for line in _files_of(config, host))
    return [*lines, *named]


def _files_of(config: str, host: Host) -> Iterator[str]:
    """Yield a line for each file outside of what a purge removes that a configuration names."""
    try:
        settings = load_file(host.path(config), root=host.root)
    except UsageError:
        return
    named = {
        "stateFile": settings.state_file,
        "logFile": settings.log_file,
        "metricsTextfile": settings.metrics_textfile,
    }
    for key, name in named.items():
        parents = {str(parent) for parent in PurePosixPath(name or "").parents}
        if name and parents.isdisjoint(_OWN) and host.path(name).exists():
            beside = ", and the plugin's files beside it" if key == "stateFile" else ""
            yield f"{name}{beside} ({key} in {config})"
