"""The setting `partitions`: NUMA nodes that are set apart for a kind of pods."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nri_numamem.config.setting import (
    BOOLEAN,
    NAMESPACES,
    Kind,
    Setting,
    choice,
    integer,
    listed,
    nullable,
    read_rows,
    write_rows,
)
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_list,
    read_mapping,
    read_names,
    read_node_set,
    show,
)
from nri_numamem.numa.idset import NODE_ID_LIMIT
from nri_numamem.numa.partitions import REST, Exclusive, Partition

# A label of DNS, as names of namespaces are.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_PATTERN = re.compile(r"[-a-z0-9*]{1,63}", re.ASCII)
# Source: Kubernetes apimachinery, IsQualifiedName and IsValidLabelValue.
_LABEL_KEY = re.compile(r"([-a-z0-9.]{1,253}/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)

_LIST_REMEDY = "write a list such as [{name: web, nodes: 2-3, namespaces: [web]}]"


def _read_name(path: SettingsPath, value: object) -> str:
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        remedy = "write at most 63 of a-z, 0-9 and -, such as web"
        raise SettingsError(path, f"{show(value)} is not a name", remedy)
    return value


def _read_namespaces(path: SettingsPath, value: object) -> tuple[str, ...]:
    what = "a namespace, or a pattern such as ml-*"
    names = read_names(path, value, what)
    for index, name in enumerate(names):
        if _PATTERN.fullmatch(name) is None:
            raise SettingsError((*path, index), f"{show(name)} is not {what}", f"write {what}")
    return names


def _read_selector(path: SettingsPath, value: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, text in read_mapping(path, value).items():
        here = (*path, key)
        if _LABEL_KEY.fullmatch(key) is None:
            remedy = "write a key such as app.kubernetes.io/name"
            raise SettingsError(here, "this is not the key of a label", remedy)
        if not isinstance(text, str) or _LABEL_VALUE.fullmatch(text) is None:
            remedy = "write the label's whole value, in quotes if it looks like a number"
            raise SettingsError(here, f"{show(text)} is not the value of a label", remedy)
        found[key] = text
    return found


_KEYS = (
    Setting(
        "name",
        "name",
        Kind("name", _read_name, schema={"type": "string", "pattern": f"^{_NAME.pattern}$"}),
        "The name in records, metrics and refusals.",
    ),
    Setting(
        "nodes",
        "nodes",
        Kind(
            "list of NUMA nodes such as `2-3`",
            read_node_set,
            lambda nodes: str(nodes) or None,
            schema={"type": ["string", "integer"]},
        ),
        "The partition's NUMA nodes.",
    ),
    Setting(
        "count",
        "count",
        integer(1, NODE_ID_LIMIT)._replace(write=lambda count: count or None),
        "Instead of `nodes`: the number of nodes.",
    ),
    Setting(
        "namespaces",
        "namespaces",
        NAMESPACES._replace(read=_read_namespaces),
        "The namespaces of its pods.",
    ),
    Setting(
        "selector",
        "selector",
        Kind(
            "mapping of label to value",
            _read_selector,
            lambda labels: dict(labels) or None,
            schema={"type": "object", "additionalProperties": {"type": "string"}},
        ),
        "The labels of its pods.",
    ),
    Setting("exclusive", "exclusive", choice(tuple(Exclusive), Exclusive), "Who stays out."),
    Setting("confine", "confine", BOOLEAN, "Whether containers that are not pinned stay inside."),
)
"""docs/partitions.md describes the keys."""

_OF_REST = ("name", "confine")
"""The keys that the entry of the rest may have."""


def _read_partitions(path: SettingsPath, value: object) -> tuple[Partition, ...]:
    found: list[Partition] = []
    for index, entry in enumerate(read_list(path, value, _LIST_REMEDY)):
        here = (*path, index)
        fields = read_rows(here, entry, _KEYS)
        if "name" not in fields:
            raise SettingsError((*here, "name"), "missing", "write a name such as web")
        partition = Partition(**fields)
        if partition.is_rest:
            _check_rest(here, fields)
        else:
            _check_partition(here, partition)
        _check_with_others(here, partition, found)
        found.append(partition)
    return (*found,)


def _check_rest(path: SettingsPath, fields: Mapping[str, Any]) -> None:
    for key in fields:
        if key not in _OF_REST:
            problem = f"{REST} stands for the pods and NUMA nodes of no other partition"
            raise SettingsError((*path, key), problem, f"keep only {' and '.join(_OF_REST)}")


def _check_partition(path: SettingsPath, partition: Partition) -> None:
    if partition.nodes and partition.count:
        raise SettingsError((*path, "count"), "nodes is set too", "keep one of the two")
    if not partition.nodes and not partition.count:
        remedy = "write nodes, such as 2-3, or count"
        raise SettingsError(path, f"partition {partition.name} has no NUMA nodes", remedy)
    if not partition.namespaces and not partition.selector:
        remedy = "write namespaces or selector"
        raise SettingsError(path, f"partition {partition.name} would have all pods", remedy)


def _check_with_others(
    path: SettingsPath, partition: Partition, others: Iterable[Partition]
) -> None:
    for other in others:
        if other.name == partition.name:
            problem = f"another partition has the name {other.name}"
            raise SettingsError((*path, "name"), problem, "give each its own")
        if common := partition.nodes & other.nodes:
            noun = "NUMA node" if len(common) == 1 else "NUMA nodes"
            verb = "is" if len(common) == 1 else "are"
            problem = f"{noun} {common} {verb} also in partition {other.name}"
            raise SettingsError((*path, "nodes"), problem, "keep each node in one of them")


def _write_partitions(partitions: Iterable[Partition]) -> list[object] | None:
    return [
        {"name": each.name, "confine": each.confine} if each.is_rest else write_rows(each, _KEYS)
        for each in partitions
    ] or None


PARTITIONS = Setting(
    "partitions",
    "partitions",
    Kind(
        f"list of mappings with {listed(row.key for row in _KEYS)}",
        _read_partitions,
        _write_partitions,
        "[]",
        {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {
                    row.key: row.kind.schema if row.key == "name" else nullable(row.kind.schema)
                    for row in _KEYS
                },
            },
        },
    ),
    "NUMA nodes that are set apart for the pods of some namespaces, or with some labels. The first "
    f"partition that matches a pod counts; an entry with the name `{REST}` stands for the pods and "
    "nodes of no other one. [partitions.md](partitions.md) describes the keys of an entry, and has "
    "recipes.",
)
