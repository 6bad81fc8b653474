"""The labels of pods in decoded messages: those by which the setting partitions selects."""

from collections.abc import Mapping

import pytest

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.decode import Decoder
from tests.nri.facts import Facts
from tests.nri.test_decode import container, pod

LABELS = {"app": "web", "tier": "front", "io.kubernetes.pod.name": "web-7"}


def labelled(sandbox_id: str = "sandbox", **labels: str) -> api.PodSandbox:
    found = pod(sandbox_id)
    for key, value in {**LABELS, **labels}.items():
        found.labels[key] = value
    return found


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((), {}),
        (("app",), {"app": "web"}),
        (("app", "missing", "tier"), {"app": "web", "tier": "front"}),
    ],
)
def test_every_event_of_a_pod_has_the_labels_that_matter(
    keys: tuple[str, ...], expected: Mapping[str, str]
) -> None:
    decoder = Decoder(Facts(label_keys=keys))
    made, inside = labelled(), container()
    pods = [
        decoder.run_pod_sandbox(api.RunPodSandboxRequest(pod=made)).pod,
        decoder.create_container(api.CreateContainerRequest(pod=made, container=inside)).pod,
        decoder.update_container(api.UpdateContainerRequest(pod=made, container=inside)).pod,
        decoder.stop_container(api.StopContainerRequest(pod=made, container=inside)).pod,
        decoder.stop_pod_sandbox(api.StopPodSandboxRequest(pod=made)).pod,
    ]
    assert [found.labels for found in pods] == [expected] * len(pods)


def test_labels_are_kept_per_sandbox() -> None:
    decoder = Decoder(Facts(label_keys=("app",)))
    assert decoder.sandbox(labelled()).labels == {"app": "web"}
    assert decoder.sandbox(labelled("other", app="db")).labels == {"app": "db"}
    assert decoder.sandbox(pod("third")).labels == {}
    # A runtime shows the same labels in each message; those of the first are kept.
    assert decoder.sandbox(labelled(app="later")).labels == {"app": "web"}
    decoder.forget_sandboxes()
    assert decoder.sandbox(labelled(app="later")).labels == {"app": "later"}


def test_a_sandbox_that_reads_networks_has_its_labels() -> None:
    started: list[PodSandbox] = []
    facts = Facts(
        label_keys=("app",),
        reads_networks=True,
        sandbox_started=lambda found, _path: started.append(found),
    )
    Decoder(facts).sandbox(labelled())
    assert [found.labels for found in started] == [{"app": "web"}]


def test_an_empty_label_is_a_label() -> None:
    decoder = Decoder(Facts(label_keys=("app",)))
    assert decoder.sandbox(labelled(app="")).labels == {"app": ""}
