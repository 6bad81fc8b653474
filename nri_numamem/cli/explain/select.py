"""Finds the entries of a pod or a container in the history."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.cli.decisions.names import Key, Names, names_of
from nri_numamem.observe.history.records import Recorded


@dataclass(frozen=True, slots=True)
class Query:
    """The pod or container that the user names."""

    text: str
    parts: tuple[str, ...]

    @classmethod
    def parsed(cls, text: str) -> "Query":
        """Return the query in POD, NAMESPACE/POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER."""
        return cls(text, tuple(text.strip("/").split("/", 2)))

    def matches(self, names: Names) -> bool:
        """Return whether a container is meant; two parts are NAMESPACE/POD or POD/CONTAINER."""
        pods = (names.pod, names.pod_uid)
        match self.parts:
            case (pod,):
                return pod in pods
            case (first, second):
                is_container = first in pods and second == names.container
                return is_container or (first == names.namespace and second in pods)
            case (namespace, pod, container):
                return namespace == names.namespace and pod in pods and container == names.container
            case _:
                return False

    def _names_pod_of(self, names: Names) -> bool:
        """Return whether the query is another container of this pod."""
        pods = (names.pod, names.pod_uid)
        match self.parts:
            case (pod, _):
                return pod in pods
            case (namespace, pod, _):
                return namespace == names.namespace and pod in pods
            case _:
                return False

    def suggestion(self, entries: Iterable[Recorded]) -> str:
        """Return the most similar pod in the history as NAMESPACE/POD; "" without one.

        If the history has the pod, but not the container: NAMESPACE/POD/CONTAINER of another one.
        """
        known = [names for names in map(names_of, entries) if names.pod]
        containers = {
            each.container: f"{each.full_pod}/{each.container}"
            for each in known
            if each.container and self._names_pod_of(each)
        }
        if containers:
            near = difflib.get_close_matches(self.parts[-1], containers, n=1, cutoff=0.0)
            return containers[near[0]]
        pods = {each.full_pod: each.pod for each in known}
        by_name = {name: full for full, name in pods.items()}
        wanted = self.parts[-1] if len(self.parts) < 3 else self.parts[1]
        near = difflib.get_close_matches(wanted, by_name, n=1)
        near = near or difflib.get_close_matches(self.text, pods, n=1)
        return by_name.get(near[0], near[0]) if near else ""


def by_container(entries: Iterable[Recorded], query: Query) -> Mapping[Key, list[Recorded]]:
    """Return the entries of each container that the query means, in the order of their first."""
    found: dict[Key, list[Recorded]] = {}
    for entry in entries:
        names = names_of(entry)
        if names.pod_uid and query.matches(names):
            found.setdefault(names.key, []).append(entry)
    return found


def of_pod(entries: Iterable[Recorded], uid: str) -> Iterator[Recorded]:
    """Yield all entries of a pod."""
    return (entry for entry in entries if names_of(entry).pod_uid == uid)
