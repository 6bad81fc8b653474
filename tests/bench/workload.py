"""The requests of the benchmark: two messages each, of which the runtime makes as many as needed.

About 6 kB for a container and its pod, as kubelet and containerd fill them: 40 variables, 12
mounts, annotations and labels. Ids and names are placeholders that the runtime replaces.
"""

from dataclasses import dataclass

from nri_numamem.engine.qos import QosClass
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects

VARIABLES = 40
# What a service mesh and a package manager of charts typically add to a pod; the containers of
# runtime_objects have 12 mounts and some variables, but are those of a small cluster.
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
    """What pods and their containers look like, as messages in protobuf's encoding."""

    pod: bytes
    container: bytes
    guaranteed: bool

    @property
    def request_bytes(self) -> int:
        """How long a CreateContainer request is."""
        return len(self.pod) + len(self.container)


def workload(memory_bytes: int, *, guaranteed: bool = True) -> Workload:
    """Return pods of one container with this memory limit; Burstable unless `guaranteed`."""
    qos = QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE
    # As long as the names that replace it.
    pod = objects.pod("pod-xxxxxxxx", qos=qos, memory_limit_bytes=memory_bytes)
    pod.labels.update(LABELS)
    pod.annotations.update(ANNOTATIONS)
    container = objects.container(pod, "main", memory_limit_bytes=memory_bytes, qos=qos)
    variables = list(container.env)[:VARIABLES]
    del container.env[:]
    container.env.extend(variables)
    return Workload(_encode(pod), _encode(container), guaranteed)


def _encode(message: api.PodSandbox | api.Container) -> bytes:
    # Maps in one order: all runs and peers get the same bytes.
    return message.SerializeToString(deterministic=True)
