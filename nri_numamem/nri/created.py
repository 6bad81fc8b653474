"""The container in a CreateContainer whose reply is empty, for its record."""

from nri_numamem.engine.core.context import qos_of_cgroup_parent
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.connection import Created
from nri_numamem.nri import nri_subset_pb2 as api


def created(request: api.CreateContainerRequest) -> Created:
    """Return the fields that name a container, which runs unpinned after an empty reply."""
    pod, container = request.pod, request.container
    return Created(
        names=ContainerNames(
            pod=pod.name,
            namespace=pod.namespace,
            container=container.name,
            pod_uid=pod.uid,
            container_id=container.id,
        ),
        sandbox_id=container.pod_sandbox_id,
        qos_class=qos_of_cgroup_parent(pod.linux.cgroup_parent).value,
    )
