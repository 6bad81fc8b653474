"""The container that an entry of the history is about."""

from dataclasses import dataclass
from typing import TypeAlias

from nri_numamem.engine.records import common
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.observe.history.records import Recorded

Key: TypeAlias = tuple[str, str]
"""Pod uid and container name; "" for the pod as a whole."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a container in the history."""

    namespace: str
    pod: str
    pod_uid: str
    container: str

    @property
    def key(self) -> Key:
        """The container's key."""
        return self.pod_uid, self.container

    @property
    def full_pod(self) -> str:
        """NAMESPACE/POD."""
        return f"{self.namespace}/{self.pod}"

    def document(self) -> dict[str, object]:
        """Return the names as in a document."""
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "podUid": self.pod_uid,
            "container": self.container,
        }


def names_of(entry: Recorded) -> Names:
    """Return the names in an entry; "" for those that it lacks."""
    names = common.names_of(entry.record)
    if names is None:
        return Names("", "", "", "")
    container = names.container if isinstance(names, ContainerNames) else ""
    return Names(names.namespace or "", names.pod or "", names.pod_uid, container)
