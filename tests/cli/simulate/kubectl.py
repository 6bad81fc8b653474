"""Objects as kubectl prints them."""

from typing import Any

Object = dict[str, Any]


def spec(memory: str = "30Gi", **limits: str) -> Object:
    resources = {"limits": {"cpu": "1", "memory": memory, **limits}}
    return {"containers": [{"name": "c", "resources": resources}]}


def pod(name: str, memory: str = "30Gi", **metadata: str) -> Object:
    found = {"name": name, "namespace": "shop", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": found, "spec": spec(memory)}


def deployment(name: str, replicas: int, memory: str = "30Gi", **limits: str) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec(memory, **limits)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "template": template},
    }
