"""The steps from the present state of a host to an installation or to none. Touches no file.

A host starts the plugin in one way. If the way changes, the configuration file of the old way is
renamed, unless the new way has one already.
"""

from collections.abc import Iterator

from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.installation.facts import COPY, NAME, Facts, Program
from nri_numamem.cli.installation.steps import Copy, Link, Move, Remove, Service, Step, Write
from nri_numamem.config.errors import UsageError
from nri_numamem.config.example import example_text
from nri_numamem.config.load import DEFAULT_CONFIG

# By ProtectHome and PrivateTmp.
_HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - not written


def plan_launched(facts: Facts, program: Program, idx: str = "10") -> list[Step]:
    """Return the steps to a plugin that the runtime launches; raise UsageError.

    The runtime must never find two entries, so an entry with another index is removed before the
    new one is made.
    """
    check_plugin_directory(facts)
    path = f"{facts.runtime.plugin_path}/{idx}-{NAME}"
    steps = [*_without_service(facts), *_program_steps(facts, program, path)]
    own = f"{facts.runtime.config_path}/{idx}-{NAME}.conf"
    shared = f"{facts.runtime.config_path}/{NAME}.conf"
    steps += _configuration(facts, own, (own, shared))
    if facts.has_copy and program.path != COPY:
        steps.append(Remove(COPY))
    return steps


def _program_steps(facts: Facts, program: Program, path: str) -> Iterator[Step]:
    """Yield the steps to one entry in the plugin directory."""
    is_entry = program.path in facts.entries
    others = [entry for entry in facts.entries if entry != path]
    if is_entry and path not in facts.entries:
        yield Move(program.path, path)
        others.remove(program.path)
    yield from map(Remove, others)
    if is_entry:
        return
    if program.is_permanent:
        if facts.entries.get(path) != program.path:
            yield Link(path, program.path)
    elif path not in facts.identical:
        yield Copy(path, program.file)


def plan_external(facts: Facts, program: Program) -> list[Step]:
    """Return the steps to a plugin that systemd starts; raise UsageError."""
    check_plugin_directory(facts)
    steps: list[Step] = []
    inside = program.path.startswith(f"{facts.runtime.plugin_path}/")
    path = program.path if program.is_permanent and not inside else COPY
    if path.startswith(_HIDDEN):
        problem = "the systemd unit hides home and temporary directories from the service"
        raise UsageError(f"{path}: {problem}; install the program below /opt or /usr")
    if path != program.path and path not in facts.identical:
        steps.append(Copy(path, program.file))
    socket = facts.runtime.nri.get("socket_path")
    text = systemd.unit_for(path, None if socket is None else str(socket))
    is_ours = facts.unit is None or systemd.is_own(facts.unit)
    if is_ours and facts.unit != text and facts.packaged_unit is None:
        steps.append(Write(systemd.PATH, text))
    steps += _configuration(facts, str(DEFAULT_CONFIG), (str(DEFAULT_CONFIG),))
    if not facts.is_enabled:
        unit = systemd.PATH if facts.unit is not None else facts.packaged_unit or systemd.PATH
        steps.append(Link(systemd.WANTED, unit))
    steps += map(Remove, facts.entries)
    if facts.has_systemd and (steps or not facts.is_active):
        steps.append(Service(("daemon-reload",)))
        if facts.is_active:
            steps.append(Service(("restart", systemd.UNIT)))
        else:
            steps.append(Service(("start", systemd.UNIT), ("stop", systemd.UNIT)))
    return steps


def plan_uninstall(facts: Facts, *, is_exporter_active: bool = False) -> list[Step]:
    """Return the steps that remove what install made, but not the configuration.

    The exporter is stopped first. Its unit stays, because it belongs to a package; so does the hook
    program of claims where a package is installed.
    """
    wanted = [systemd.EXPORTER_WANTED] if facts.is_exporter_enabled else []
    own = [COPY] if facts.has_copy else []
    if facts.has_claim_hook and facts.packaged_unit is None:
        own.append(hook_program.PATH)
    return [
        *_without(systemd.EXPORTER, wanted, facts, is_active=is_exporter_active),
        *_without_service(facts),
        *map(Remove, (*facts.entries, *own, *facts.drop_ins)),
    ]


def _without_service(facts: Facts) -> Iterator[Step]:
    """Yield the steps that stop the service, and remove a unit that no administrator changed."""
    paths = [systemd.WANTED] if facts.is_enabled else []
    paths += [systemd.PATH] if systemd.is_own(facts.unit) else []
    return _without(systemd.UNIT, paths, facts, is_active=facts.is_active)


def _without(unit: str, paths: list[str], facts: Facts, *, is_active: bool) -> Iterator[Step]:
    if is_active:
        yield Service(("stop", unit), ("start", unit))
    yield from map(Remove, paths)
    if paths and facts.has_systemd:
        yield Service(("daemon-reload",))


def _configuration(facts: Facts, path: str, read: tuple[str, ...]) -> Iterator[Step]:
    """Yield the steps to a configuration at `path`, or at another one that is read."""
    present = [each for each in read if each in facts.configs]
    others = [other for other in facts.configs if other not in read]
    empty = {each for each, text in facts.configs.items() if text == example_text()}
    others.sort(key=empty.__contains__)
    if others and others[0] not in empty and empty.issuperset(present):
        # Reinstalling a package adds a file without any setting.
        yield from map(Remove, present)
        present = []
    if not present:
        yield Move(others.pop(0), path) if others else Write(path, example_text())
    # A file without any setting is useless beside the other.
    yield from (Remove(other) for other in others if other in empty)


def check_plugin_directory(facts: Facts) -> None:
    """Raise UsageError for files that keep the runtime from starting, or that are not ours."""
    if facts.bad_names:
        problem = f"the runtime does not start with an executable in {facts.runtime.plugin_path} "
        problem += "whose name does not begin with two digits and a dash"
        raise UsageError(f"{facts.bad_names[0]}: {problem}; rename it, or move it away")
    if facts.other_programs:
        problem = "this is neither a link to the plugin nor a copy of it"
        raise UsageError(f"{facts.other_programs[0]}: {problem}; move it away")
