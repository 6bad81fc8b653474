"""The steps of a scenario, read from the document.

A step is a mapping with one key, its verb. Pods, containers and NUMA nodes that a step names must
exist.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_mapping,
    read_quantity,
    show,
    suggest,
)
from nri_numamem.memorymanager import Container
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import MEMORY, NodeSet, hugepages_page_size
from nri_numamem.scenario.values import (
    ScenarioPod,
    read_cpus,
    read_list,
    read_node_set,
    read_text,
)

# Uids are long; a list of more would hide the right one.
_SUGGESTED = 8


@dataclass(frozen=True, slots=True)
class Admit:
    """Start a pod and its containers that do not run, in the kubelet's order.

    A refused app container does not keep the next ones from being created; a refused init
    container or sidecar does. Source: kubelet kuberuntime, SyncPod.
    """

    uid: str
    cpus: Mapping[str, str] = field(default_factory=dict)
    """Container name -> list of the CPUs that it was allocated."""
    devices: Mapping[str, tuple[NodeSet, ...]] = field(default_factory=dict)
    """Container name -> NUMA nodes of each of its devices."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Create refused containers again, as the kubelet does after a pause."""

    uid: str | None = None
    """Only those of this pod; None for all pods, in the order of their refusals."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the memory of a container while it runs."""

    uid: str
    container: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End a container; its pod goes on, and keeps the container's memory for the next one."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Remove:
    """End a pod with all its containers."""

    uid: str


_What: TypeAlias = Mapping[str, object]
Step: TypeAlias = Admit | Retry | Resize | Stop | Remove


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What steps refer to."""

    pods: Mapping[str, ScenarioPod]
    written: Mapping[str, Mapping[HolderName, object]] = field(default_factory=dict)
    """Pod uid -> its containers in the state at the start."""


def read_steps(path: SettingsPath, value: object, around: Surroundings) -> tuple[Step, ...]:
    """Return the steps; SettingsError names the first that cannot be used."""
    return tuple(
        _read_step((*path, index), step, around)
        for index, step in enumerate(read_list(path, value))
    )


def _read_step(path: SettingsPath, value: object, around: Surroundings) -> Step:
    step = read_mapping(path, value, tuple(_READERS))
    if len(step) != 1:
        problem = f"{len(step)} verbs in one step" if step else "an empty step"
        raise SettingsError(path, problem, f"write one of {', '.join(_READERS)}")
    [(verb, what)] = step.items()
    keys, read = _READERS[verb]
    return read((*path, verb), read_mapping((*path, verb), what, keys), around)


def _read_admit(path: SettingsPath, what: _What, around: Surroundings) -> Step:
    uid = _read_pod(path, what, around.pods)
    pod = around.pods[uid].pod
    for container in pod.containers:
        _check_page_sizes(path, container)
    names = tuple(container.name for container in pod.containers)
    here = (*path, "cpus")
    cpus = {
        name: str(read_cpus((*here, name), cpulist))
        for name, cpulist in read_mapping(here, what.get("cpus"), names).items()
    }
    there = (*path, "devices")
    devices = {
        name: tuple(
            read_node_set((*there, name, index), nodes)
            for index, nodes in enumerate(read_list((*there, name), each))
        )
        for name, each in read_mapping(there, what.get("devices"), names).items()
    }
    return Admit(uid, cpus, devices)


def _check_page_sizes(path: SettingsPath, container: Container) -> None:
    for resource in container.requests:
        try:
            if resource != MEMORY:
                hugepages_page_size(resource)
        except ValueError as error:
            problem = f"{show(container.name)}: {error}"
            raise SettingsError(path, problem, "use a page size that exists") from error


def _read_retry(path: SettingsPath, what: _What, around: Surroundings) -> Step:
    return Retry(None if what.get("pod") is None else _read_pod(path, what, around.pods))


def _read_resize(path: SettingsPath, what: _What, around: Surroundings) -> Step:
    uid, container = _read_container(path, what, around)
    here = (*path, "memory")
    if what.get("memory") is None:
        raise SettingsError(here, "missing", "write the new limit, such as 2Gi")
    return Resize(uid, container, read_quantity(here, what["memory"]))


def _read_stop(path: SettingsPath, what: _What, around: Surroundings) -> Step:
    return Stop(*_read_container(path, what, around))


def _read_remove(path: SettingsPath, what: _What, around: Surroundings) -> Step:
    return Remove(_read_pod(path, what, {**around.pods, **around.written}))


def _read_pod(path: SettingsPath, what: _What, known: Mapping[str, object]) -> str:
    here = (*path, "pod")
    uid = read_text(here, what.get("pod"))
    if uid not in known:
        raise SettingsError(here, f"no pod has the uid {show(uid)}", _one_of(uid, known))
    return uid


def _read_container(path: SettingsPath, what: _What, around: Surroundings) -> tuple[str, str]:
    uid = _read_pod(path, what, around.pods)
    here = (*path, "container")
    name = read_text(here, what.get("container"))
    names = {container.name: None for container in around.pods[uid].pod.containers}
    if name not in names:
        problem = f"pod {show(uid)} has no container {show(name)}"
        raise SettingsError(here, problem, _one_of(name, names))
    return uid, name


def _one_of(given: str, allowed: Mapping[str, object]) -> str:
    if not allowed:
        return "describe it under pods"
    remedy = suggest(given, tuple(allowed))
    if len(allowed) <= _SUGGESTED:
        return remedy
    return remedy.partition("allowed: ")[0].strip() or f"give one of the {len(allowed)} there"


_READERS: Mapping[
    str, tuple[tuple[str, ...], Callable[[SettingsPath, _What, Surroundings], Step]]
] = {
    "admit": (("pod", "cpus", "devices"), _read_admit),
    "retry": (("pod",), _read_retry),
    "resize": (("pod", "container", "memory"), _read_resize),
    "stop": (("pod", "container"), _read_stop),
    "remove": (("pod",), _read_remove),
}
"""Verb -> the keys of its mapping, and what reads them."""
