"""Static pods: manifests in a folder of the kubelet, and the kubelet's report of its pods."""

import json
from pathlib import Path

from tests.cluster.guest.kubelet import HOST_NAME, MANIFESTS, PODS, get
from tests.cluster.guest.manifests import Manifest
from tests.machines.guest.waiting import wait_until


class StaticPods:
    """The pods of a kubelet without an API server."""

    def put(self, manifest: Manifest) -> None:
        """Write a manifest; the kubelet starts the pod."""
        path = _file(manifest["metadata"]["name"])
        hidden = path.with_name(f".{path.name}")  # the kubelet ignores it
        hidden.write_text(json.dumps(manifest), encoding="ascii")
        hidden.rename(path)

    def withdraw(self, name: str) -> None:
        """Remove the manifest of a pod; the kubelet ends the pod."""
        _file(name).unlink()

    def withdraw_all(self) -> None:
        """Remove all manifests, and wait until no pod is left."""
        for path in MANIFESTS.glob("*.json"):
            path.unlink()
        wait_until(lambda: self.found() == {}, "end of all pods")

    def found(self) -> dict[str, Manifest] | None:
        """Return name in the manifest -> pod with its status, or None if the kubelet is away."""
        reply = get(PODS)
        if reply is None:
            return None
        pods = json.loads(reply)["items"] or []
        return {pod["metadata"]["name"].removesuffix(f"-{HOST_NAME}"): pod for pod in pods}


def _file(name: str) -> Path:
    return MANIFESTS / f"{name}.json"
