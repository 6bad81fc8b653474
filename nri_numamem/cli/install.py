"""``nri-numamem install``: makes the runtime or systemd start the plugin on one host.

``--launched`` makes an entry in the runtime's plugin directory, ``--external`` a service of
systemd. Each removes the other, because two instances would contradict each other. The runtime's
own configuration is never changed; ``--enable-nri`` writes a file beside it that the runtime reads.
``--claim-hook`` only writes the hook program of resource claims, for the image and other places.
"""

import argparse
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import hook_program
from nri_numamem.cli.installation.facts import (
    Facts,
    add_installation_arguments,
    chosen_runtime,
    find_program,
    read_facts,
)
from nri_numamem.cli.installation.plan import plan_external, plan_launched
from nri_numamem.cli.installation.steps import (
    Step,
    Write,
    WriteProgram,
    perform,
    print_nothing,
    print_remaining,
)
from nri_numamem.cli.runtimes import drop_in, instructions
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.identity import Identity

EXAMPLES = (
    "nri-numamem install --launched",
    "nri-numamem install --external --dry-run",
    "nri-numamem install --launched --root /mnt/image --program /usr/bin/nri-numamem",
)

_IDX = re.compile(r"\d\d", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--launched",
        action="store_true",
        help="the runtime starts the plugin, from its plugin directory",
    )
    way.add_argument(
        "--external",
        action="store_true",
        help="systemd starts the plugin as a service, which connects to the runtime",
    )
    way.add_argument(
        "--claim-hook",
        metavar="FILE",
        help="only write the hook program of resource claims to this file",
    )
    parser.add_argument(
        "--idx",
        default=Identity().idx,
        metavar="NN",
        help="place among all plugins that the runtime launches, as two digits (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--program", metavar="FILE", help="the program on the host (default: the running one)"
    )
    parser.add_argument(
        "--enable-nri",
        action="store_true",
        help="enable NRI in a separate file that the runtime reads beside its configuration",
    )
    add_installation_arguments(parser)
    parser.epilog = (
        "An existing configuration is kept, and renamed if the plugin is started in another way "
        "than before. A second run changes nothing. Exit status: 0 if the plugin is installed, 2 "
        "if nothing was changed."
    )


def main(args: argparse.Namespace) -> int:
    """Install the plugin; raise UsageError if nothing was changed."""
    if not _IDX.fullmatch(args.idx):
        raise UsageError(f"--idx {args.idx}: not an index; give two digits, such as 10")
    host = Host(args.root)
    if args.claim_hook is not None:
        path = os.path.normpath(Path(args.claim_hook).absolute())
        return _write_hook(path, host, is_dry_run=args.dry_run)
    return _install(args, host)


def _install(args: argparse.Namespace, host: Host) -> int:
    runtime = chosen_runtime(args.runtime, host)
    program = find_program(args.program, host)
    facts = read_facts(host, runtime, program)
    enabling = Write(*drop_in(host, runtime)) if args.enable_nri and not _is_on(facts) else None
    if args.launched:
        steps = plan_launched(facts, program, args.idx)
    else:
        steps = plan_external(facts, program)
    if enabling is not None and facts.drop_ins.get(enabling.path) != enabling.text:
        steps.append(enabling)
    # Before the plugin starts, which names the program in its CDI specifications.
    hook = list(_hook_steps(facts, host))
    perform([*hook, *steps], host, is_dry_run=args.dry_run)
    if not (hook or steps):
        print_nothing(is_dry_run=args.dry_run)
    for part in writable_parts(program.path, host):
        print(f"warning: users other than root can change {part}, and the program runs as root")
    remaining: list[str] = []
    if not (_is_on(facts) or facts.drop_ins or enabling):
        remaining += instructions(runtime)
    if host.is_this_host:
        # A plugin that the runtime launched runs until the runtime restarts.
        is_switch = bool(facts.entries) and not args.launched
        is_new = args.launched and (bool(steps) or facts.holder is None)
        if enabling in steps or is_switch or is_new:
            remaining.append(f"systemctl restart {runtime.service}")
        if not args.launched and not facts.has_systemd:
            note = "(systemd does not run here; at a boot it starts it)"
            remaining.append(f"systemctl start nri-numamem    {note}")
        remaining.append("nri-numamem doctor    (checks the host and the plugin)")
    print_remaining(remaining)
    return 0


def _write_hook(path: str, host: Host, *, is_dry_run: bool) -> int:
    """Write the hook program only; raise UsageError if there is none, or it cannot be written."""
    if hook_program.carried() is None:
        problem = "this Python package does not contain the hook program of resource claims"
        raise UsageError(f"--claim-hook: {problem}; use the single executable file or a package")
    program = hook_program.missing(host, path)
    if program is None:
        print_nothing(is_dry_run=is_dry_run)
    else:
        perform([WriteProgram(path, program)], host, is_dry_run=is_dry_run)
    return 0


def _hook_steps(facts: Facts, host: Host) -> Iterator[Step]:
    """Yield the step that writes the hook program, unless a package has it."""
    program = None if facts.packaged_unit else hook_program.missing(host)
    if program is not None and hook_program.is_read_only(host):
        problem = f"warning: {hook_program.PATH} is on a read-only file system"
        remedy = "for resource claims run nri-numamem install --claim-hook FILE, and name FILE in"
        print(f"{problem}; {remedy} claims.hookProgram")
    elif program is not None:
        yield WriteProgram(hook_program.PATH, program)


def _is_on(facts: Facts) -> bool:
    """Return whether NRI is known to be enabled without a file that `install` wrote."""
    return not facts.drop_ins and (facts.is_listening or facts.runtime.enabled is True)


def writable_parts(path: str, host: Host) -> Iterator[str]:
    """Yield the parts of a path that users other than root can change, from the file upward."""
    for part in (Path(path), *Path(path).parents):
        try:
            status = host.path(str(part)).stat()
        except OSError:
            continue
        mode = status.st_mode
        is_shared = mode & 0o022 and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)
        if status.st_uid != 0 or is_shared:
            yield str(part)
