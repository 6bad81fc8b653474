"""Gives refusals an id that stays the same in retries.

The kubelet retries a refused container, and Kubernetes merges events of equal text. So the text of
a refusal has the id of the request in which the container was refused first for this reason, and
the records of the retries have it as `refusal_id`.
"""

import re
from dataclasses import dataclass

from nri_numamem.daemon.newest import put_newest
from nri_numamem.engine.core.events import CreateContainer, Event, UpdateContainer
from nri_numamem.engine.core.fields import PREFIX

_ID = re.compile(r" \[\d+-\d+\]", re.ASCII)

# More than the containers of a large host that are refused at one time.
LIMIT = 1024


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is refused: a container in one kind of request, for one reason of the kubelet."""

    pod_uid: str
    container: str
    request: type
    reason: str


class RefusalIds:
    """The ids of the last LIMIT refused containers."""

    def __init__(self) -> None:
        self._ids: dict[_Subject, str] = {}
        """Oldest refusal first."""

    def id_of(self, event: Event, reason: str, request_id: str) -> str:
        """Return the id for a refusal: `request_id`, or that of the container's first one."""
        if not isinstance(event, CreateContainer | UpdateContainer):
            return request_id
        subject = _Subject(event.pod.uid, event.container.name, type(event), reason)
        found = self._ids.get(subject, request_id)
        put_newest(self._ids, subject, found, LIMIT)
        return found

    def admitted(self, event: Event) -> None:
        """Forget the refusals of a container, since its creation or resize is not refused."""
        if self._ids and isinstance(event, CreateContainer | UpdateContainer):
            key = (event.pod.uid, event.container.name, type(event))
            for subject in [s for s in self._ids if (s.pod_uid, s.container, s.request) == key]:
                del self._ids[subject]


def with_id(text: str, refusal_id: str) -> str:
    """Return the text of a refusal with the id at the end of its first clause."""
    if not refusal_id:
        return text
    head, colon, tail = text.removeprefix(PREFIX).partition(": ")
    return f"{PREFIX}{head} [{refusal_id}]{colon}{tail}"


def without_id(text: str) -> str:
    """Return the text of a refusal as it was before with_id()."""
    return _ID.sub("", text, count=1)
