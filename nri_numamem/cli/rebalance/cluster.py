"""The API server as the command uses it, with the operator's credentials."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Client, Request, RequestError
from nri_numamem.cli.rebalance.carry_out import Victim
from nri_numamem.export.evictions import (
    ClusterPod,
    Evicted,
    Outcome,
    cluster_pod,
    evicted,
    eviction,
    eviction_path,
    obstacle,
    pod_path,
)

_JSON = "application/json"
_GRACE_S = 30.0
"""Kubernetes' default of terminationGracePeriodSeconds."""
_LOOK_S = 10.0
"""Between two requests for one pod."""


class Cluster:
    """Requests about pods."""

    def __init__(self, client: Client, now_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now_s = now_s
        self._pods: dict[str, dict[str, Any]] = {}
        """Uid -> pod, of those that were read."""
        self._looked_s = -_LOOK_S
        self._exists = True

    def obstacle(self, victim: Victim) -> str:
        """Return why a pod must not be evicted; "" if it may."""
        problem = self.read(victim.namespace, victim.name, victim.uid)
        return problem or obstacle(self._pods[victim.uid], victim.uid)

    def read(self, namespace: str, name: str, uid: str) -> str:
        """Read a pod for pod(); return why that failed, "" if it did not."""
        try:
            answer = self._get(namespace, name)
        except (RequestError, AccessError) as error:
            return str(error)
        if answer.status == 404:
            return "the API server does not have it"
        if answer.status != 200:
            cause = evicted(answer.status, answer.document).cause
            return f"the API server does not show it: {cause}"
        self._pods[uid] = answer.document
        return ""

    def pod(self, uid: str) -> ClusterPod:
        """Return a pod that was read; its uid differs if another one has its name now."""
        return cluster_pod(self._pods[uid])

    def grace_s(self, victim: Victim) -> float:
        """Return how long a pod may take to end."""
        spec = self._pods.get(victim.uid, {}).get("spec")
        found = spec.get("terminationGracePeriodSeconds") if isinstance(spec, dict) else None
        return float(found) if isinstance(found, int) and found >= 0 else _GRACE_S

    def labels(self, uid: str) -> Mapping[str, str]:
        """Return the labels of a pod that was read; none if it was not."""
        return cluster_pod(self._pods.get(uid, {})).labels

    def evict(self, victim: Victim) -> Evicted:
        """Request an eviction; without an answer it is requested again."""
        path = eviction_path(victim.namespace, victim.name)
        body = eviction(victim.namespace, victim.name, victim.uid)
        try:
            answer = self._client.send(Request("POST", path, body, _JSON))
        except (RequestError, AccessError) as error:
            return Evicted(Outcome.UNANSWERED, str(error))
        if answer.status == 409:  # the pod with this uid has gone
            return Evicted(Outcome.GONE)
        return evicted(answer.status, answer.document)

    def exists(self, namespace: str, name: str, uid: str) -> bool:
        """Return whether a pod exists, as of some seconds ago; True if that is unknown."""
        if self._exists and self._now_s() - self._looked_s >= _LOOK_S:
            self._looked_s = self._now_s()
            try:
                answer = self._get(namespace, name)
            except (RequestError, AccessError):
                return True
            metadata = answer.document.get("metadata")
            other = isinstance(metadata, dict) and metadata.get("uid") != uid
            self._exists = answer.status != 404 and not (answer.status == 200 and other)
        return self._exists

    def _get(self, namespace: str, name: str) -> Answer:
        return self._client.send(Request("GET", pod_path(namespace, name)))
