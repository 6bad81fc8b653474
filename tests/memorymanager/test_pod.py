import pytest

from nri_numamem.memorymanager import Container, ContainerKind, Pod, pod_request

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.RESTARTABLE_INIT, ContainerKind.APP


def pod(*containers: tuple[ContainerKind, dict[str, int]]) -> Pod:
    made = (Container(f"c{i}", kind, requests) for i, (kind, requests) in enumerate(containers))
    return Pod("uid", guaranteed=True, containers=tuple(made))


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        ((), {}),
        (((APP, {"memory": 2}), (APP, {"memory": 3})), {"memory": 5}),
        (((INIT, {"memory": 7}), (INIT, {"memory": 9}), (APP, {"memory": 2})), {"memory": 9}),
        (((SIDECAR, {"memory": 4}), (APP, {"memory": 2})), {"memory": 6}),
        # Only sidecars that start before an init container run together with it.
        (((SIDECAR, {"memory": 4}), (INIT, {"memory": 9}), (APP, {"memory": 2})), {"memory": 13}),
        (((INIT, {"memory": 9}), (SIDECAR, {"memory": 4}), (APP, {"memory": 2})), {"memory": 9}),
        # Each resource by itself, also those that no app container requests.
        (
            ((INIT, {"memory": 9, "hugepages-1Gi": 5}), (APP, {"memory": 10, "hugepages-2Mi": 0})),
            {"memory": 10, "hugepages-2Mi": 0, "hugepages-1Gi": 5},
        ),
        (
            ((SIDECAR, {"hugepages-2Mi": 3}), (APP, {"memory": 1})),
            {"memory": 1, "hugepages-2Mi": 3},
        ),
        (((INIT, {"hugepages-2Mi": 9}), (APP, {"hugepages-2Mi": 0})), {"hugepages-2Mi": 9}),
    ],
)
def test_pod_request(
    containers: tuple[tuple[ContainerKind, dict[str, int]], ...], want: dict[str, int]
) -> None:
    assert pod_request(pod(*containers)) == want


def test_container_by_name() -> None:
    found = pod((INIT, {}), (APP, {"memory": 1}))
    assert found.container("c1") == Container("c1", APP, {"memory": 1})
    with pytest.raises(KeyError, match="no container other"):
        found.container("other")
