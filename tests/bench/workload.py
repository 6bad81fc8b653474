"""The benchmark's requests: a pod and a container that the runtime side copies.

Both together have about 6 kB, filled as the kubelet and containerd fill them: 40 variables, 12
mounts, annotations and labels. Ids and names are placeholders that the runtime side replaces.
"""

from dataclasses import dataclass

from nri_numamem.memorymanager import QosClass
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects

VARIABLES = 40
# Typical labels and annotations of Helm charts, controllers and network plugins; the pods of
# laboratory.objects have few.
LABELS = {
    "app.kubernetes.io/component": "database",
    "app.kubernetes.io/instance": "orders-production",
    "app.kubernetes.io/part-of": "orders",
    "app.kubernetes.io/version": "16.4.0",
    "controller-revision-hash": "orders-production-5d8f7c9b64",
    "helm.sh/chart": "database-12.8.3",
    "statefulset.kubernetes.io/pod-name": "orders-production-0",
}
ANNOTATIONS = {
    "checksum/configuration": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "cni.projectcalico.org/containerID": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0",
    "cni.projectcalico.org/podIP": "10.244.17.133/32",
    "prometheus.io/path": "/metrics",
    "prometheus.io/port": "9187",
    "prometheus.io/scrape": "true",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod and its container in protobuf's encoding."""

    pod: bytes
    container: bytes
    guaranteed: bool

    @property
    def request_bytes(self) -> int:
        """The size of a CreateContainer request."""
        return len(self.pod) + len(self.container)


def workload(memory_bytes: int, *, guaranteed: bool = True) -> Workload:
    """Return a pod of one container with this memory limit; Burstable unless `guaranteed`."""
    qos = QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE
    # The name is as long as the names that replace it.
    pod = objects.pod("pod-xxxxxxxx", qos=qos, memory_limit_bytes=memory_bytes)
    pod.labels.update(LABELS)
    pod.annotations.update(ANNOTATIONS)
    container = objects.container(pod, "main", memory_limit_bytes=memory_bytes, qos=qos)
    variables = list(container.env)[:VARIABLES]
    del container.env[:]
    container.env.extend(variables)
    return Workload(_encode(pod), _encode(container), guaranteed)


def _encode(message: api.PodSandbox | api.Container) -> bytes:
    # A fixed order of map entries: all runs and plugins get the same bytes.
    return message.SerializeToString(deterministic=True)
