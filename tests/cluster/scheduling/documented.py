"""Configuration and roles, as docs/scheduler.md shows them."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.cluster.kubernetes.api import Document

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "scheduler.md"
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def scheduler_configuration() -> Document:
    """Return the KubeSchedulerConfiguration."""
    return _only("KubeSchedulerConfiguration")


def cache_arguments() -> Document:
    """Return the plugin's arguments for a cache; the period is as short as possible."""
    (found,) = [each for each in _documents() if "cache" in each]
    return {**found, "cacheResyncPeriodSeconds": 1}


def scheduler_role() -> Document:
    """Return the ClusterRole that the scheduler needs besides those of every scheduler."""
    return _only("ClusterRole", "noderesourcetopologies-reader")


def scheduler_binding() -> Document:
    """Return the ClusterRoleBinding of scheduler_role()."""
    return _only("ClusterRoleBinding", "noderesourcetopologies-reader")


def exporter_role() -> Document:
    """Return the ClusterRole that the exporter needs."""
    return _only("ClusterRole", "nri-numamem-export")


def _only(kind: str, name: str = "") -> Document:
    (found,) = (
        each
        for each in _documents()
        if each.get("kind") == kind and each.get("metadata", {}).get("name", "") == name
    )
    return found


def _documents() -> Iterator[Document]:
    for block in _YAML.findall(_PAGE.read_text()):
        yield from yaml.safe_load_all(block)
