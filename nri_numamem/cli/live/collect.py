"""Read the plugin's lock, state and settings, and its host. Nothing is changed.

If a part cannot be read, the facts describe the problem, and the other parts are read. Only a
missing permission for the state directory is an error, because then nothing is known.
"""

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.host_arguments import (
    add_config_argument,
    add_host_argument,
    add_root_arguments,
    add_state_file_argument,
    plugin_settings,
    roots_of,
)
from nri_numamem.cli.live.facts import Facts, limited_containers
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.config.policy import context_of
from nri_numamem.config.setting import Setting
from nri_numamem.config.settings import (
    DEFAULT,
    Settings,
    SettingsError,
    settings_from_mapping,
)
from nri_numamem.config.table import TABLE
from nri_numamem.daemon.lock_holder import LockHolder, find_holder
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.rebuilt import rebuilt
from nri_numamem.host.cgroups import pod_hugepage_limits, pod_memory_limit
from nri_numamem.host.containers import cgroup_path
from nri_numamem.host.hugepage_users import hugepage_users
from nri_numamem.host.hugepages import PoolDirectories, read_pod_use, read_pool_use
from nri_numamem.host.pod_cgroups import (
    count_other_pods,
    guaranteed_pods,
    has_pod_cgroups,
    other_pod_directories,
)
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_available, read_machine
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import (
    PluginFacts,
    PluginFileError,
    plugin_file_of,
    read_plugin_file,
)
from nri_numamem.observe.state_file import existing_state_file, read_state

# Settings that no decision about placement depends on: besides stateFile those that a reload
# applies.
_NOT_OF_PLACEMENT = {"stateFile"} | {
    row.key for row in TABLE if isinstance(row, Setting) and row.is_live
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that locate the plugin and its host."""
    add_host_argument(parser)
    add_state_file_argument(parser)
    add_config_argument(parser)
    add_root_arguments(parser, "sysfs", "proc", "cgroup")


def collect(args: argparse.Namespace) -> Facts:
    """Return the facts; raise UsageError if the settings or the state directory are unreadable."""
    roots = roots_of(args)
    facts = _with_available(_with_machine(_of_plugin(args), roots), roots)
    facts = _with_use(_with_state(facts, roots), roots)
    return with_hugepage_users(_with_cgroups(facts, roots), roots)


def collect_accounting(args: argparse.Namespace) -> Facts:
    """Return the facts without the use of memory: no cgroup of a container, no process is read.

    Raises UsageError as collect().
    """
    roots = roots_of(args)
    facts = _with_machine(_of_plugin(args), roots)
    return _with_use(_with_state(facts, roots), roots)


def state_file_of(args: argparse.Namespace) -> str:
    """Return the path of the plugin's state file, "" if it has none; raise UsageError."""
    return _state_file(args, _settings(args.config, args.root)[0])


def _state_file(args: argparse.Namespace, settings: Settings) -> str:
    file = settings.state_file_or_default if args.state_file is None else args.state_file
    return file and str(below(args.root, Path(file)))


def _of_plugin(args: argparse.Namespace) -> Facts:
    settings, origin, problem = _settings(args.config, args.root)
    file = _state_file(args, settings)
    facts = Facts(time.time(), settings, origin, file)
    if file:
        facts = replace(facts, holder=_holder(lock_file_of(Path(file))))
        facts = _with_plugin(facts, is_configured=args.config is not None)
    if problem is not None and not facts.settings_origin:
        raise problem  # the plugin left no settings that could be used in their place
    return facts


def _settings(path: Path | None, root: Path) -> tuple[Settings, str, UsageError | None]:
    """Return the settings, their file, and why a file that was not named cannot be used."""
    try:
        return *plugin_settings(path, root), None
    except UsageError as error:
        if path is not None:
            raise
        return Settings(), "", error


def _holder(path: Path) -> LockHolder | None:
    try:
        return find_holder(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; run as root") from error


def _with_plugin(facts: Facts, *, is_configured: bool) -> Facts:
    """Return the facts with what the plugin wrote about itself.

    Its settings count, unless the caller names a configuration.
    """
    try:
        plugin = read_plugin_file(plugin_file_of(Path(facts.state_file)))
        if plugin is None:
            return facts
        facts = replace(facts, plugin=plugin)
        if is_configured:
            return facts
        written = {key: setting.value for key, setting in plugin.settings.items()}
        settings = settings_from_mapping(written)
    except (PluginFileError, SettingsError) as error:
        return replace(facts, plugin_problem=str(error))
    return replace(facts, settings=settings, settings_origin=_origins(plugin))


def _origins(plugin: PluginFacts) -> str:
    """Return the files and flags that the settings of placement come from."""
    origins = {
        setting.origin
        for key, setting in plugin.settings.items()
        if key not in _NOT_OF_PLACEMENT and setting.origin != DEFAULT
    }
    # A place in a file is FILE:LINE.
    files = {origin.rpartition(":")[0] or origin for origin in origins}
    return ", ".join(sorted(files)) or "defaults"


def _with_machine(facts: Facts, roots: HostRoots) -> Facts:
    try:
        context = context_of(facts.settings, read_machine(roots.sysfs, roots.proc))
        return replace(facts, context=context)
    except (MachineError, UsageError) as error:
        return replace(facts, machine_problem=str(error))


def _with_available(facts: Facts, roots: HostRoots) -> Facts:
    if facts.context is None:
        return facts
    try:
        return replace(facts, available_bytes=read_available(roots.sysfs))
    except MachineError as error:
        return replace(facts, context=None, machine_problem=str(error))


def _with_cgroups(facts: Facts, roots: HostRoots) -> Facts:
    """Return the facts with the cgroups of Guaranteed pods, and of containers pinned in others."""
    try:
        if not has_pod_cgroups(roots.cgroup):
            # No pod ever ran, or the host's cgroups are not mounted here.
            if facts.state is None or not facts.state.holders:
                return facts
            problem = f"{roots.cgroup} has no cgroup of pods (kubepods), so containers are not "
            return replace(facts, cgroup_problem=f"{problem}compared; mount the host's cgroups")
        found = {
            cgroup.container_id: cgroup
            for uid, directory in guaranteed_pods(roots.cgroup).items()
            for cgroup in limited_containers(roots.cgroup, uid, directory)
        }
        facts = replace(facts, cgroups=found, other_pods=count_other_pods(roots.cgroup))
        return facts if facts.state is None else _with_others(facts, facts.state, roots)
    except MachineError as error:
        return replace(facts, cgroup_problem=str(error))


def _with_others(facts: Facts, state: EngineState, roots: HostRoots) -> Facts:
    """Return the facts with the cgroups of containers that are pinned in Burstable pods."""
    uids = {uid for uid, _ in state.holders}
    cgroups, counts = dict(facts.cgroups or {}), dict(facts.other_pods)
    for uid, (qos, directory) in other_pod_directories(roots.cgroup).items():
        if uid in uids:
            counts[qos] -= 1
            for cgroup in limited_containers(roots.cgroup, uid, directory):
                if cgroup.container_id in state.keys:
                    cgroups[cgroup.container_id] = cgroup
    return replace(facts, cgroups=cgroups, other_pods=counts)


def _with_state(facts: Facts, roots: HostRoots) -> Facts:
    """Return the facts with the plugin's state."""
    if not facts.state_file:
        problem = "the setting stateFile is empty, so the plugin stores no state"
        return replace(facts, state_problem=problem)
    path = existing_state_file(Path(facts.state_file))
    try:
        state = read_state(path)
        changed_s = path.stat().st_mtime
    except FileNotFoundError:
        return facts
    except PermissionError as error:
        raise UsageError(f"{path}: {error.strerror}; run as root") from error
    except OSError as error:
        return replace(facts, state_problem=f"{path}: {error.strerror or error}")
    except SnapshotError as error:
        return replace(facts, state_problem=f"{path}: {error}")
    if facts.context is not None:
        state = _rebuilt(facts.context, state, roots)
    return replace(facts, state=state, changed_s=changed_s)


def _rebuilt(context: Context, restored: EngineState, roots: HostRoots) -> EngineState:
    """Return the state with its accounting, and with the sandboxes that still have a cgroup."""
    try:
        others = other_pod_directories(roots.cgroup)
        directories = {uid: directory for uid, (_, directory) in others.items()}
        directories |= guaranteed_pods(roots.cgroup)
        sandboxes = {holder.sandbox_id: holder.key[0] for holder in restored.holders.values()}
        pods = [
            sandbox_at(roots.cgroup, directories[uid], sandbox_id, uid)
            for sandbox_id, uid in sandboxes.items()
            if uid in directories
        ]
    except MachineError:
        pods = []  # described in the facts already
    return rebuilt(context, restored, pods)


def sandbox_at(cgroup_root: Path, directory: Path, sandbox_id: str, uid: str) -> PodSandbox:
    """Return a pod with the limits of its cgroup; its name is unknown."""
    path = cgroup_path(cgroup_root, directory)
    limit_bytes = pod_memory_limit(cgroup_root, path)
    hugepages = pod_hugepage_limits(cgroup_root, path)
    return PodSandbox(sandbox_id, uid, "", uid, path, limit_bytes, hugepages)


def _with_use(facts: Facts, roots: HostRoots) -> Facts:
    """Return the facts with the use of the hugepage pools."""
    try:
        use = read_pool_use(PoolDirectories.find(roots.sysfs))
        use = replace(use, by_pods=_by_pods(facts, roots))
    except MachineError as error:
        return replace(facts, machine_problem=facts.machine_problem or str(error))
    return replace(facts, pool_use=use)


def with_hugepage_users(facts: Facts, roots: HostRoots) -> Facts:
    """Return the facts with what uses hugepages outside of pods."""
    pools = facts.pool_use.pools if facts.pool_use is not None else {}
    is_used = any(pool.used for by_size in pools.values() for pool in by_size.values())
    return replace(facts, hugepage_users=hugepage_users(roots.proc)) if is_used else facts


def _by_pods(facts: Facts, roots: HostRoots) -> Mapping[str, Mapping[int, Mapping[str, int]]]:
    """Return pod uid -> node id -> resource -> bytes, of the pods whose cgroup shows them."""
    if facts.context is None or facts.state is None:
        return {}
    sizes = {size for node in facts.context.machine.nodes for size in node.hugepages}
    found: dict[str, Mapping[int, Mapping[str, int]]] = {}
    for pod in facts.state.pods.values():
        use = read_pod_use(roots.cgroup, pod.cgroup_parent, sizes)
        if use is not None:
            found[pod.uid] = use
    return found
