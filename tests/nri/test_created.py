"""Names in a CreateContainer."""

import pytest

from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.connection import Created
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.created import created


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/podu", "Guaranteed"),
        ("/kubepods/burstable/podu", "Burstable"),
        ("", "Unknown"),
    ],
)
def test_the_names(parent: str, qos: str) -> None:
    pod = api.PodSandbox(id="s", name="db", namespace="ns", uid="u")
    pod.linux.cgroup_parent = parent
    container = api.Container(id="c", pod_sandbox_id="s", name="app")
    assert created(api.CreateContainerRequest(pod=pod, container=container)) == Created(
        names=ContainerNames(
            pod="db", namespace="ns", container="app", pod_uid="u", container_id="c"
        ),
        sandbox_id="s",
        qos_class=qos,
    )
