"""Which steps lead from what is there to an installation, or to none. Pure: no file is touched.

A host starts the plugin in one way. Its configuration follows when the way changes: the file of the
other way is renamed, unless the new way has a file already.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nri_numamem.cli.installation import unit
from nri_numamem.cli.installation.facts import Facts
from nri_numamem.cli.installation.program import COPY, NAME, Program
from nri_numamem.cli.installation.steps import (
    Copy,
    Link,
    Move,
    Remove,
    Service,
    Step,
    Write,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.example import example_text
from nri_numamem.config.load import DEFAULT_CONFIG

# By ProtectHome and PrivateTmp.
_HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - not written


@dataclass(frozen=True, slots=True)
class Options:
    """What the plans depend on beside the facts."""

    idx: str = "10"
    is_this_host: bool = True
    """Whether the root directory is that of this process, not of an image."""
    has_systemd: bool = False
    """Whether systemd runs on the host."""
    is_active: bool = False
    """Whether systemd runs the service."""
    is_exporter_active: bool = False
    """Whether systemd runs the service of `nri-numamem export`."""
    nri_drop_in: Write | None = None
    """The file that enables NRI, if it is requested."""


def plan_launched(facts: Facts, program: Program, options: Options) -> list[Step]:
    """Return the steps to a plugin that the runtime launches; raise UsageError.

    The runtime must find at most one entry at each time, so an entry with another index is removed
    before the new one is made.
    """
    check_plugin_directory(facts)
    path = f"{facts.runtime.plugin_path}/{options.idx}-{NAME}"
    steps: list[Step] = [*_without_service(facts, options)]
    steps += _program_steps(facts, program, path)
    own = f"{facts.runtime.config_path}/{options.idx}-{NAME}.conf"
    shared = f"{facts.runtime.config_path}/{NAME}.conf"
    steps += _configuration(facts, own, (own, shared))
    if facts.has_copy and program.path != COPY:
        steps.append(Remove(COPY))
    return [*steps, *_nri(facts, options)]


def _program_steps(facts: Facts, program: Program, path: str) -> Iterator[Step]:
    """Yield the steps to one entry in the plugin directory."""
    others = [entry for entry in facts.entries if entry.path != path]
    present = next((entry for entry in facts.entries if entry.path == path), None)
    in_place = next((entry for entry in others if entry.path == program.path), None)
    if in_place is not None and present is None:
        yield Move(in_place.path, path)
        others.remove(in_place)
    yield from (Remove(entry.path) for entry in others)
    if in_place is not None or program.path == path:
        return
    if program.is_permanent:
        if present is None or present.target != program.path:
            yield Link(path, program.path)
    elif path not in facts.identical:
        yield Copy(path, program.file)


def plan_external(facts: Facts, program: Program, options: Options) -> list[Step]:
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
    text = unit.unit_for(path, None if socket is None else str(socket))
    is_ours = facts.unit is None or unit.is_own(facts.unit)
    is_new = is_ours and facts.unit != text and facts.packaged_unit is None
    if is_new:
        steps.append(Write(unit.PATH, text))
    steps += _configuration(facts, str(DEFAULT_CONFIG), (str(DEFAULT_CONFIG),))
    if not facts.is_enabled:
        steps.append(Link(unit.WANTED, _unit_file(facts)))
    steps += [Remove(entry.path) for entry in facts.entries]
    if options.has_systemd and (steps or not options.is_active):
        steps.append(Service(("daemon-reload",)))
        if options.is_active:
            steps.append(Service(("restart", unit.NAME)))
        else:
            steps.append(Service(("start", unit.NAME), ("stop", unit.NAME)))
    return [*steps, *_nri(facts, options)]


def _unit_file(facts: Facts) -> str:
    if facts.packaged_unit is not None and facts.unit is None:
        return facts.packaged_unit
    return unit.PATH


def plan_uninstall(facts: Facts, options: Options) -> list[Step]:
    """Return the steps that take away what install made; the configuration stays."""
    steps: list[Step] = [*_without_exporter(facts, options), *_without_service(facts, options)]
    steps += [Remove(entry.path) for entry in facts.entries]
    steps += [Remove(COPY)] if facts.has_copy else []
    return [*steps, *(Remove(path) for path in facts.drop_ins)]


def _without_exporter(facts: Facts, options: Options) -> Iterator[Step]:
    """Yield the steps that stop the exporter; its unit belongs to a package."""
    if options.is_exporter_active:
        yield Service(("stop", unit.EXPORTER), ("start", unit.EXPORTER))
    if facts.is_exporter_enabled:
        yield Remove(unit.EXPORTER_WANTED)
        if options.has_systemd:
            yield Service(("daemon-reload",))


def _without_service(facts: Facts, options: Options) -> Iterator[Step]:
    """Yield the steps that stop the service, and remove a unit that no administrator changed."""
    if options.is_active:
        yield Service(("stop", unit.NAME), ("start", unit.NAME))
    if facts.is_enabled:
        yield Remove(unit.WANTED)
    is_ours = facts.unit is not None and unit.is_own(facts.unit)
    if is_ours:
        yield Remove(unit.PATH)
    if options.has_systemd and (facts.is_enabled or is_ours):
        yield Service(("daemon-reload",))


def _configuration(facts: Facts, path: str, read: tuple[str, ...]) -> Iterator[Step]:
    """Yield the steps to a configuration at one of the paths that are read."""
    present = [each for each in read if each in facts.configs]
    others = [other for other in facts.configs if other not in read]
    empty = {each for each, text in facts.configs.items() if text == example_text()}
    others.sort(key=empty.__contains__)
    if others and others[0] not in empty and empty.issuperset(present):
        # A package that is installed again brings a file without any setting.
        yield from map(Remove, present)
        present = []
    if not present:
        yield Move(others.pop(0), path) if others else Write(path, example_text())
    # A file without any setting is of no use beside the other.
    yield from (Remove(other) for other in others if other in empty)


def _nri(facts: Facts, options: Options) -> Iterator[Step]:
    drop_in = options.nri_drop_in
    if drop_in is not None and facts.drop_ins.get(drop_in.path) != drop_in.text:
        yield drop_in


def check_plugin_directory(facts: Facts) -> None:
    """Raise UsageError for files with which the runtime does not start, or that are not ours."""
    if facts.bad_names:
        problem = f"the runtime does not start with an executable in {facts.runtime.plugin_path} "
        problem += "whose name does not begin with two digits and a dash"
        raise UsageError(f"{facts.bad_names[0]}: {problem}; rename it, or move it away")
    if facts.other_programs:
        problem = "this is neither a link to the plugin nor a copy of it"
        raise UsageError(f"{facts.other_programs[0]}: {problem}; move it away")
